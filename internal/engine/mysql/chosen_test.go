package mysql

import (
	"log/slog"
	"strings"
	"testing"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/parameter"
)

// TestChosenSettings: whatever a customer may choose a server starts with, and has;
// and what needs no restart it takes while it runs. All else it runs with as it was written.
// MySQL does in TestChosenSettingsThorough.
func TestChosenSettings(t *testing.T) { choosing(t, engine.FlavourMariaDB, 0, 1) }

// TestChosenSettingsThorough draws what is chosen.
func TestChosenSettingsThorough(t *testing.T) {
	end := 2
	if enginetest.Thorough() {
		end = 20
	}
	choosing(t, engine.FlavourMariaDB, 1, end)
	choosing(t, engine.FlavourMySQL, 0, end)
}

// choosing has a server of each build for each number from the first up to the end, of which 0 has the bounds of what may be chosen.
func choosing(t *testing.T, flavour engine.Flavour, first, end int) {
	t.Helper()
	d := New(slog.New(slog.DiscardHandler))
	for _, inst := range enginetest.Installations(t, d) {
		if inst.Flavour != flavour {
			continue
		}
		t.Run(inst.ID(), func(t *testing.T) {
			b := enginetest.NewBench(t, d, inst, enginetest.Options{})
			for number := first; number < end; number++ {
				s := b.Server(t, func(n *engine.Node) {
					n.Plan = catalog.Plan{ID: "drawn", MemoryMB: []int{1024, 2048, 16384}[number%3], DiskMB: 25600, VCPUs: 2}
					n.ClusterSize, n.Replication, n.Role = 3, cluster.SemiSynch, cluster.Primary
					n.Config = enginetest.DrawnConfig(n.Server(), 2*number)
				})
				s.Start(t)
				s.Node.AdminPassword = s.Node.TemplatePassword
				inForce(t, d, s)
				before := s.Node.Config
				s.Node.Config = enginetest.DrawnConfig(s.Node.Server(), 2*number+1)
				s.WriteFiles(t)
				restart, err := d.Reload(t.Context(), s.Node)
				if err != nil {
					t.Fatal(err)
				}
				if restart {
					t.Errorf("from %v to %v: a restart is due", before, s.Node.Config)
				}
				if len(s.Node.Config.Restarts(before, "mysql")) > 0 {
					s.Stop(t)
					s.Start(t)
				}
				inForce(t, d, s)
				if number == 0 {
					forgotten(t, d, s)
				}
				s.Kill(t)
			}
		})
	}
}

// forgotten: what is taken away from a running server is as on one that never had it.
func forgotten(t *testing.T, d *Driver, s *enginetest.Server) {
	t.Helper()
	had := s.Node.Config
	s.Node.Config = nil
	s.WriteFiles(t)
	if _, err := d.Reload(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	live := variablesOf(t, d, s)
	s.Stop(t)
	s.Start(t)
	fresh := variablesOf(t, d, s)
	asWritten(t, s, fresh)
	for _, c := range had.Values(s.Node.Server()) {
		if name := c.Setting(); !c.Restart && live[name] != fresh[name] {
			t.Errorf("%s is %q when taken away, and %q on a fresh server", name, live[name], fresh[name])
		}
	}
}

func variablesOf(t *testing.T, d *Driver, s *enginetest.Server) map[string]string {
	t.Helper()
	session, err := d.adminWith(t.Context(), s.Node, s.Node.TemplatePassword)
	if err != nil {
		t.Fatal(err)
	}
	defer session.close()
	running, err := session.variables(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return running
}

// inForce compares what a server runs with what was chosen.
func inForce(t *testing.T, d *Driver, s *enginetest.Server) {
	t.Helper()
	running := variablesOf(t, d, s)
	for _, c := range s.Node.Config.Values(s.Node.Server()) {
		want := rendered(c)
		switch c.Setting() {
		case parameter.StatementStatistics:
			if got := running["performance_schema"]; got != want {
				t.Errorf("performance_schema is %s, wanted %s", got, want)
			}
		case retention:
			if got := running["binlog_expire_logs_seconds"]; got != want {
				t.Errorf("binary logs go after %s s, wanted %s", got, want)
			}
		case "sql_mode":
			for mode := range strings.SplitSeq(want, ",") {
				if !strings.Contains(running["sql_mode"], mode) {
					t.Errorf("sql_mode is %q, wanted %q", running["sql_mode"], want)
				}
			}
		case "innodb_log_buffer_size":
			// MariaDB maps the log of a server in memory, as tests' are, and has no buffer.
			if got := running[c.Setting()]; got != want && !onMemory(s) {
				t.Errorf("%s is %q, wanted %q", c.Setting(), got, want)
			}
		default:
			if got := running[c.Setting()]; got != want {
				t.Errorf("%s is %q, wanted %q", c.Setting(), got, want)
			}
		}
	}
}

// rendered is a value as the server shows it.
func rendered(c parameter.Chosen) string {
	for _, s := range withChosen(nil, engine.Node{Installation: engine.Installation{Flavour: engine.FlavourMariaDB, Series: "10.11"}, Config: parameter.Config{c.Name: c.Value}}) {
		if s.name == c.Setting() {
			return s.text()
		}
	}
	return setting{name: c.Setting(), value: c.Value}.text()
}

func onMemory(s *enginetest.Server) bool {
	return s.Node.Installation.Flavour == engine.FlavourMariaDB && strings.HasPrefix(s.Node.Data, "/dev/shm/")
}

// TestChosenRetention: logs that nobody needs stay for as long as was chosen, and
// where steward fetches them the server itself lets none go.
func TestChosenRetention(t *testing.T) {
	n := engine.Node{Installation: engine.Installation{Flavour: engine.FlavourMariaDB, Series: "10.11"}}
	if keep(n) != keepArchived || expiry(n) != 900 {
		t.Errorf("nothing chosen: %s, %d s", keep(n), expiry(n))
	}
	n.Config = parameter.Config{retention: int64(7200)}
	if keep(n).Hours() != 2 || expiry(n) != 7200 {
		t.Errorf("two hours chosen: %s, %d s", keep(n), expiry(n))
	}
	if n.ArchiveDir = "/archive"; expiry(n) != forgetAfter {
		t.Errorf("with an archive: %d s", expiry(n))
	}
}
