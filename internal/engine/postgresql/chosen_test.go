package postgresql

import (
	"testing"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/parameter"
)

// TestChosenSettings: whatever a customer may choose a server starts with, and has;
// and what needs no restart it takes while it runs.
func TestChosenSettings(t *testing.T) { choosing(t, 0, 1) }

// TestChosenSettingsThorough draws what is chosen.
func TestChosenSettingsThorough(t *testing.T) {
	if enginetest.Thorough() {
		choosing(t, 1, 20)
		return
	}
	choosing(t, 1, 2)
}

// choosing has a server for each number from the first up to the end, of which 0 has the bounds of what may be chosen.
func choosing(t *testing.T, first, end int) {
	t.Helper()
	d := New()
	for _, inst := range enginetest.Installations(t, d) {
		t.Run(inst.ID(), func(t *testing.T) {
			b := enginetest.NewBench(t, d, inst, enginetest.Options{})
			for number := first; number < end; number++ {
				s := b.Server(t, func(n *engine.Node) {
					n.Plan = catalog.Plan{ID: "drawn", MemoryMB: []int{1024, 2048, 4096}[number%3], DiskMB: 25600, VCPUs: 2}
					n.ClusterSize, n.Role = 3, cluster.Primary
					n.Config = enginetest.DrawnConfig(n.Server(), 2*number)
				})
				s.Start(t)
				s.Node.AdminPassword = s.Node.TemplatePassword
				inForce(t, s)
				before := s.Node.Config
				s.Node.Config = enginetest.DrawnConfig(s.Node.Server(), 2*number+1)
				s.WriteFiles(t)
				restart, err := d.Reload(t.Context(), s.Node)
				if err != nil {
					t.Fatal(err)
				}
				if restart && len(s.Node.Config.Restarts(before, "postgresql")) == 0 {
					t.Errorf("from %v to %v: a restart is due", before, s.Node.Config)
				}
				if restart {
					s.Stop(t)
					s.Start(t)
				}
				inForce(t, s)
				s.Kill(t)
			}
		})
	}
}

// inForce asks the server whether it runs with what was chosen: it reads its file
// again, in its own units.
func inForce(t *testing.T, s *enginetest.Server) {
	t.Helper()
	conn, err := asOurs(t.Context(), s.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer closeSoon(t.Context(), conn)
	for _, c := range s.Node.Config.Values(s.Node.Server()) {
		row, err := queryOne(t.Context(), conn, "SELECT applied AND f.setting = '"+literal(chosenValue(c, s.Node))+"', current_setting(name) "+
			"FROM pg_file_settings f WHERE name = '"+c.Setting()+"'")
		if err != nil {
			t.Fatal(err)
		}
		if row[0] != "t" {
			t.Errorf("%s is %s, wanted %s", c.Setting(), row[1], chosenValue(c, s.Node))
		}
	}
}

// TestChosenRendered: shares of the memory and units become what the server reads,
// and what isn't a plan's any more stands once.
func TestChosenRendered(t *testing.T) {
	n := engine.Node{
		Installation: engine.Installation{Flavour: engine.FlavourPostgreSQL, Series: "13"}, Plan: catalog.Plan{MemoryMB: 2000, DiskMB: 25600},
		Config: parameter.Config{
			"shared_buffers_percentage": 40.5, "work_mem": int64(7), "pg.jit": true, "pg.autovacuum_vacuum_cost_delay": int64(-1),
			"pg.deadlock_timeout": int64(900), "pg.timezone": "Asia/Tokyo",
		},
	}
	found := map[string][]string{}
	for _, s := range settings(n) {
		found[s.name] = append(found[s.name], s.value)
	}
	for name, want := range map[string]string{
		"shared_buffers": "810MB", "work_mem": "7MB", "jit": "on", "autovacuum_vacuum_cost_delay": "-1", "deadlock_timeout": "900ms", "timezone": "Asia/Tokyo",
	} {
		if got := found[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, wanted %q", name, got, want)
		}
	}
}
