package mysql

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/parameter"
)

// TestWhoCounts: MySQL counts statements unless it is told not to, MariaDB when it is told to; what is missing says how, with nobody asked.
func TestWhoCounts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flavour engine.Flavour
		chosen  parameter.Config
		want    bool
	}{
		{engine.FlavourMySQL, nil, true},
		{engine.FlavourMySQL, parameter.Config{parameter.StatementStatistics: false}, false},
		{engine.FlavourMariaDB, nil, false},
		{engine.FlavourMariaDB, parameter.Config{parameter.StatementStatistics: true}, true},
	} {
		n := engine.Node{Installation: engine.Installation{Flavour: c.flavour}, Plan: catalog.Plan{MemoryMB: 1024}, Config: c.chosen}
		all, _ := countingSettings(n)
		if all[0].name != "performance_schema" || all[0].value != c.want {
			t.Errorf("%s with %v: %v", c.flavour, c.chosen, all[0])
		}
		if _, missing, _ := New(slog.New(slog.DiscardHandler)).withStatements(t.Context(), n); c.want == strings.Contains(missing, "engine_config.statement_statistics to true") {
			t.Errorf("%s with %v: %q", c.flavour, c.chosen, missing)
		}
	}
}

// TestSettingsTakeThorough starts servers of several plans and roles, of which TestChosenSettings has one.
func TestSettingsTakeThorough(t *testing.T) {
	d := New(slog.New(slog.DiscardHandler))
	for _, inst := range enginetest.Installations(t, d) {
		b := enginetest.NewBench(t, d, inst, enginetest.Options{})
		plans := []int{1024, 2048, 4096}
		if enginetest.Thorough() {
			plans = append(plans, 1024, 1024, 2048, 16384)
		}
		for i, memory := range plans {
			s := b.Server(t, func(n *engine.Node) {
				n.Plan = catalog.Plan{MemoryMB: memory, DiskMB: 20 * memory}
				if role := []cluster.Role{"", cluster.Primary, cluster.Replica}[i%3]; role != "" {
					n.ClusterSize, n.Replication, n.Role = 3, cluster.SemiSynch, role
				}
			})
			s.Start(t)
			s.Node.AdminPassword = s.Node.TemplatePassword
			asWritten(t, s, variablesOf(t, d, s))
			s.Kill(t)
		}
	}
}

// asWritten compares what a server runs with to what was written: a name misspelt, a value rounded or a setting that the
// flavour doesn't know shows here.
func asWritten(t *testing.T, s *enginetest.Server, running map[string]string) {
	t.Helper()
	settings, _ := settingsOf(s.Node)
	for _, w := range settings {
		if w.when != apart && running[w.name] != w.text() {
			t.Errorf("%s, %d MB: %s is %q, wanted %q", s.Node.Installation.ID(), s.Node.Plan.MemoryMB, w.name, running[w.name], w.text())
		}
	}
}

func TestTuneFitsThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := catalog.Plan{MemoryMB: rapid.IntRange(512, 200000).Draw(t, "memory"), DiskMB: rapid.IntRange(2048, 4000000).Draw(t, "disk")}
		big := small
		big.MemoryMB += rapid.IntRange(0, 100000).Draw(t, "more memory")
		a, b := tune(small), tune(big)
		// What the server needs besides its pool, by measurement.
		if spare := int64(small.MemoryMB) - a.poolMB; spare < min(384, int64(small.MemoryMB)*3/4) {
			t.Errorf("%d MB leave %d MB beside the pool", small.MemoryMB, spare)
		}
		if a.poolMB > b.poolMB || a.connections > b.connections || a.redoMB > b.redoMB || a.tables > b.tables {
			t.Errorf("more memory gives less: %+v, %+v", a, b)
		}
		if a.poolMB%parameter.BufferPoolStepMB != 0 {
			t.Errorf("a pool of %d MB is no multiple of %d", a.poolMB, parameter.BufferPoolStepMB)
		}
		if total := a.redoMB + a.tempDiskMB + a.binlogTotalMB; total > int64(small.DiskMB)*3/4 {
			t.Errorf("%d MB of %d MB of disk are for redo, temporary tables and binary logs", total, small.DiskMB)
		}
	})
}

func TestServerIDsDiffer(t *testing.T) {
	seen := map[int64]bool{}
	for i := range 5 {
		for ordinal := range 3 {
			var n engine.Node
			n.Cluster, n.Ordinal = cluster.ID(1<<30-2+i), ordinal
			if id := serverID(n); id <= 0 || id >= 1<<32 || seen[id] {
				t.Errorf("cluster %d, node %d: server id %d", n.Cluster, ordinal, id)
			} else {
				seen[id] = true
			}
		}
	}
}

// TestFilesRefuse: a path with a quote or a new line could add a setting.
func TestFilesRefuse(t *testing.T) {
	d := New(slog.New(slog.DiscardHandler))
	n := engine.Node{
		Installation: engine.Installation{Flavour: engine.FlavourMariaDB}, Listen: netip.MustParseAddrPort("127.0.77.1:21000"),
		Data: "/data", Conf: "/conf", TLS: "/tls", Tmp: "/tmp", Run: "/run",
	}
	files, err := d.Files(n)
	if err != nil || !strings.Contains(string(files[0].Content), "bind_address = \"127.0.77.1\"\nport = 21000\n") {
		t.Errorf("%v, %+v", err, files)
	}
	n.Data = "/data\"\ninit_connect = \"DROP DATABASE x"
	if _, err := d.Files(n); err == nil {
		t.Error("a new line in a path goes into the configuration")
	}
}
