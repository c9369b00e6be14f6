package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"steward/test/harness"
)

// bareHAProxy is the least that a HAProxy before the server can be: what the
// gateway could reach at best. It listens on an address of its own.
func bareHAProxy(b *testing.B, server string, port int) string {
	const address = "127.0.78.1" // certificates of nodes don't have it: see PGSSLMODE
	config := filepath.Join(b.TempDir(), "haproxy.cfg")
	text := fmt.Sprintf("global\n    nbthread 1\ndefaults\n    mode tcp\n    timeout connect 1s\n    timeout client 1h\n    timeout server 1h\n"+
		"listen all\n    bind %[1]s:%[3]d\n    server one %[2]s:%[3]d\n", address, server, port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command("haproxy", "-db", "-f", config)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return address
}

// BenchmarkGateway compares pgbench through HAProxy with pgbench straight to the server, both over
// verified TLS. The kernel's gateway has its own, in bench/kernel.
func BenchmarkGateway(b *testing.B) {
	s := harness.Prepare(b)
	s.Env = append(s.Env, "STEWARD_GATEWAY__DRIVER=haproxy")
	s.Start()
	spec := harness.Small("bench-gw", "postgresql/15")
	spec["type"] = "g6-standard-2"
	d := s.CreateActive(spec)
	c := s.Credentials(d)
	pgbench := harness.NewPgBench(b, d, c, 10)
	direct := s.NodeAddress(d)
	bare := bareHAProxy(b, direct, d.Port)
	for _, kind := range []struct {
		name, goal string
		args       []string
	}{
		{"select", "≥ 0.75", []string{"-S", "-M", "prepared", "-c", "8", "-j", "2", "-T", "4"}},
		{"read-write", "≥ 0.95", []string{"-N", "-M", "prepared", "-c", "4", "-j", "2", "-T", "4"}},
	} {
		var through, straight, peer []float64
		for range 5 {
			straight = append(straight, pgbench.Rate(direct, kind.args...))
			through = append(through, pgbench.Rate(d.Hosts.Primary, kind.args...))
			peer = append(peer, pgbench.Rate(bare, kind.args...))
		}
		report(b, fmt.Sprintf("gateway %s (%.0f tps) / a HAProxy with nothing but a listener (%.0f tps)", kind.name, middle(through), middle(peer)),
			middle(through)/middle(peer), "ratio-bare-"+kind.name, "≥ 0.9")
		report(b, fmt.Sprintf("gateway %s (%.0f tps) / direct (%.0f tps)", kind.name, middle(through), middle(straight)),
			middle(through)/middle(straight), "ratio-"+kind.name, kind.goal)
	}
}
