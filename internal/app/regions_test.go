package app

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/catalog"
	"steward/internal/monitor"
)

// TestRegionGuards: nobody's checks reach an API server, also one whose address can't be found out.
func TestRegionGuards(t *testing.T) {
	t.Parallel()
	a := &App{log: slog.New(slog.DiscardHandler), catalog: &catalog.Catalog{Regions: []catalog.Region{{ID: "local"}}}}
	for i, server := range []string{"https://127.0.0.1:6443", "https://api.invalid:7443"} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: %q}}]\n", server)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a.catalog.Regions = append(a.catalog.Regions, catalog.Region{
			ID: fmt.Sprint("kube", i), Platform: catalog.Platform{Kind: catalog.Kubernetes, Kubeconfig: file},
		})
	}
	reach := map[string][]netip.Prefix{"local": monitor.LocalNetworks()}
	n := monitor.Networks{Regions: reach, Guards: a.regionGuards(t.Context())}
	for address, want := range map[string]monitor.Barrier{
		"127.0.0.1:6443": monitor.GuardedPort, "127.0.0.2:6443": "", "127.0.0.1:7443": monitor.GuardedPort, "127.0.0.2:7443": monitor.GuardedPort, "127.0.0.1:80": "",
	} {
		for _, kind := range []monitor.ServiceType{monitor.TCP, monitor.URL} {
			if got := n.Judge(kind, "local", netip.MustParseAddrPort(address)); got != want {
				t.Errorf("%s %s: %q, want %q", kind, address, got, want)
			}
		}
	}
}

func TestHostPort(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"https://10.0.0.1:6443": "10.0.0.1 6443", "https://api.example": "api.example 443", "http://api.example/sub": "api.example 80",
		"10.0.0.1:6443": "10.0.0.1 6443", "https://[fd00::1]:6443": "fd00::1 6443", "https://a:b": " 0",
	} {
		host, port := hostPort(server)
		if got := fmt.Sprint(host, " ", port); got != want {
			t.Errorf("%s: %s, want %s", server, got, want)
		}
	}
}
