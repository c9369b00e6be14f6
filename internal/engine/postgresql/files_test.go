package postgresql

import (
	"bytes"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
)

var update = flag.Bool("update", false, "write the golden files anew")

func node(series string) engine.Node {
	return engine.Node{
		Cluster: 7, Listen: netip.MustParseAddrPort("127.0.77.1:21003"),
		Data: "/n/data", Conf: "/n/conf", TLS: "/n/tls", Tmp: "/n/tmp", Log: "/n/log", Run: "/r",
		Installation:  engine.Installation{Flavour: engine.FlavourPostgreSQL, Series: series, Version: series + ".1"},
		Plan:          catalog.Plan{MemoryMB: 2048, DiskMB: 51200, VCPUs: 1},
		Commit:        cluster.CommitLocal,
		SSLConnection: true,
		AdminPassword: "admin-secret", RootPassword: "root-secret", TemplatePassword: "template-secret",
	}
}

func TestFilesGolden(t *testing.T) {
	plain := node("18")
	plain.SSLConnection, plain.ReadOnly, plain.Commit = false, true, cluster.CommitOff
	networked := node("18")
	networked.Listen = netip.MustParseAddrPort("10.213.0.4:21003")
	networked.Pooler = netip.MustParseAddr("10.213.0.44")
	networked.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("10.213.0.1/32")}
	for name, n := range map[string]engine.Node{"13": node("13"), "18": node("18"), "18-plain-read-only": plain, "18-networked": networked} {
		files, err := Driver{}.Files(n)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		for _, f := range files {
			got.WriteString("=== " + f.Path + "\n")
			got.Write(f.Content)
		}
		golden := filepath.Join("testdata", "files-"+name+".golden")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs; go test -update shows how:\n%s", golden, got.Bytes())
		}
		if strings.Contains(got.String(), "secret") {
			t.Errorf("%s has a password", name)
		}
	}
}

// Whatever the plan, memory and disk that the settings commit to stay inside it.
func TestSettingsStayInsideThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := node("17")
		n.Plan.MemoryMB = rapid.IntRange(256, 512<<10).Draw(t, "memory")
		n.Plan.DiskMB = rapid.IntRange(10<<10, 8<<20).Draw(t, "disk")
		n.Plan.VCPUs = rapid.IntRange(1, 64).Draw(t, "vcpus")
		value := map[string]int{}
		for _, s := range settings(n) {
			if v, err := strconv.Atoi(strings.TrimSuffix(s.value, "MB")); err == nil {
				value[s.name] = v
			}
		}
		if got := value["shared_buffers"]; got > n.Plan.MemoryMB/4+16 || got < n.Plan.MemoryMB/4 {
			t.Errorf("shared_buffers is %d of %d", got, n.Plan.MemoryMB)
		}
		if got := value["work_mem"]; got > 4 && got*value["max_connections"]*3 > n.Plan.MemoryMB {
			t.Errorf("work_mem is %d for %d sessions of %d", got, value["max_connections"], n.Plan.MemoryMB)
		}
		if got := value["max_wal_size"] + value["max_slot_wal_keep_size"] + value["temp_file_limit"]; got > n.Plan.DiskMB*3/10 {
			t.Errorf("WAL and temporary files take %d of %d", got, n.Plan.DiskMB)
		}
		if value["min_wal_size"] > value["max_wal_size"] || value["max_worker_processes"] < value["max_parallel_workers"] {
			t.Errorf("settings contradict each other: %v", value)
		}
	})
}

func TestFilesQuote(t *testing.T) {
	n := node("15")
	n.Run = "/it's"
	files, err := Driver{}.Files(n)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(files[0].Content, []byte("unix_socket_directories = '/it''s'\n")) {
		t.Errorf("a quote isn't doubled:\n%s", files[0].Content)
	}
}
