package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/harness"
)

// deletionProtection: what is protected can't be deleted, by the API or the command line, until that is taken back by either; what was refused leaves the
// database as it was.
func deletionProtection(t *testing.T, s *harness.Server, d harness.Database) {
	t.Helper()
	const refusal = "deletion_protection"
	refused := func() {
		t.Helper()
		if status, body := s.Call("DELETE", d.Path(), nil, nil); status != 400 || !strings.Contains(body, refusal) {
			t.Errorf("by the API: %d %s", status, body)
		}
		if out, err := s.Command("db", "delete", d.Label, "--yes"); err == nil || !strings.Contains(out, refusal) {
			t.Errorf("by the command line: %v\n%s", err, out)
		}
	}
	refused()
	exec1(t, s.MustConnect(d, s.Credentials(d)), "CREATE TABLE kept (n int PRIMARY KEY)")
	if status, body := s.Call("PUT", d.Path(), map[string]any{"deletion_protection": false}, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if out, err := s.Command("db", "update", d.Label, "--protect"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	refused()
	if out, err := s.Command("db", "update", d.Label, "--no-protect"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := s.Command("db", "delete", d.Label, "--yes"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if status, body := s.Call("GET", d.Path(), nil, nil); status != 404 {
		t.Errorf("%d %s", status, body)
	}
}

// growingPlans are two with little disk, so that a test fills the first.
const growingPlans = `types:
  - {id: little, label: Little, class: nanode, memory: 1024, disk: 1024, vcpus: 1}
  - {id: more, label: More, class: nanode, memory: 1024, disk: 2048, vcpus: 1}
regions:
  - {id: local, label: Local, country: us, status: ok}
`

// TestAutoscaleThorough: a database whose disk fills moves to the next type by itself, once, as it was asked to by the API or the command line, tells of it in
// an event, and keeps its rows; at the largest type it stays and says so.
func TestAutoscaleThorough(t *testing.T) {
	t.Parallel()
	menu := filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(menu, []byte(growingPlans), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.New(t, harness.WithConfig("pool: {size: 0}\ncatalog: {file: "+menu+"}"))
	asks := map[string]func(t *testing.T, d harness.Database){
		postgresql: func(t *testing.T, d harness.Database) {
			autoscale := map[string]any{"enabled": true, "threshold_percent": 50, "max_type": "more"}
			if status, body := s.Call("PUT", d.Path(), map[string]any{"autoscale": autoscale}, nil); status != 200 {
				t.Fatalf("%d %s", status, body)
			}
		},
		mariadb: func(t *testing.T, d harness.Database) {
			if out, err := s.Command("db", "update", d.Label, "--autoscale", "--autoscale-at", "50", "--autoscale-max", "more"); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		},
	}
	for _, engine := range enginesOr(mariadb) { // test/crash has PostgreSQL, asked by the API
		t.Run(strings.ReplaceAll(engine, "/", "-"), func(t *testing.T) {
			t.Parallel()
			spec := harness.Small("fills-"+strings.Split(engine, "/")[0], engine)
			spec["type"] = "little"
			d := s.CreateActive(spec)
			if out, err := s.Command("db", "update", d.Label, "--autoscale", "--autoscale-at", "95", "--autoscale-max", "none"); err == nil ||
				!strings.Contains(out, "autoscale.threshold_percent") || !strings.Contains(out, "autoscale.max_type") {
				t.Errorf("%v\n%s", err, out)
			}
			w := harness.NewWriter(t, s, d)
			s.Fill(d, 600<<20)
			asks[engine](t, d)
			s.Eventually("it has grown", func() error {
				if now := s.AwaitStatus(d, "active"); now.Type != "more" {
					return fmt.Errorf("type %s", now.Type)
				}
				return nil
			})
			s.Fill(d, 1200<<20)
			s.Eventually("it reports that it can't grow", func() error {
				return told(t, s, d, "database_low_disk_space", "there is no larger type up to more")
			})
			w.StopAndCheck()
			if err := told(t, s, d, "database_resize", "the database moved to more"); err != nil {
				t.Error(err)
			}
			if now := s.AwaitStatus(d, "active"); now.Type != "more" {
				t.Errorf("type %s", now.Type)
			}
		})
	}
}

// told is nil when exactly one event of the action says so.
func told(t *testing.T, s *harness.Server, d harness.Database, action, message string) error {
	t.Helper()
	n := 0
	all := eventsOf(t, s, d)
	for _, e := range all {
		if string(e.Action) == action && e.Entity != nil && fmt.Sprint(e.Entity.ID) == fmt.Sprint(d.ID) && strings.Contains(e.Message, message) {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf("%d events %s with %q: %+v", n, action, message, all)
	}
	return nil
}
