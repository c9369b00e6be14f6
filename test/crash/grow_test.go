package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"steward/internal/pgtest"
	"steward/test/harness"
)

// smallestPlans are one that a file fills, and one in which that has room.
const smallestPlans = `types:
  - {id: little, label: Little, class: nanode, memory: 512, disk: 1024, vcpus: 1}
  - {id: more, label: More, class: nanode, memory: 512, disk: 4096, vcpus: 1}
regions:
  - {id: local, label: Local, country: us, status: ok}
`

// TestGrow kills steward around the moment at which a database that fills begins to grow: it grows, once.
func TestGrow(t *testing.T) {
	t.Parallel()
	menu := filepath.Join(t.TempDir(), "catalog.yaml")
	if err := os.WriteFile(menu, []byte(smallestPlans), 0o600); err != nil {
		t.Fatal(err)
	}
	m := &maintained{store: pgtest.MigratedURL(t), Server: harness.Prepare(t, postgresql, harness.WithTags("failpoint"), harness.WithConfig("pool: {size: 0}\ncatalog: {file: "+menu+"}")), t: t}
	m.Start("--store", m.store)
	spec := harness.Small("fills", "postgresql/15")
	spec["type"] = "little"
	m.db = m.CreateActive(spec)
	m.Fill(m.db, 600<<20)
	if status := m.askToGrow(); status != 200 {
		t.Fatalf("autoscale: %d", status)
	}
	for _, point := range []string{"converge: before growth begins", "converge: after growth begins", "operate: before apply"} {
		m.dieAt(point)
	}
	m.start()
	m.Eventually("it grows", func() error {
		if d := m.AwaitStatus(m.db, "active"); d.Type != "more" {
			return fmt.Errorf("type %s", d.Type)
		}
		return nil
	})
	grown, events := 0, m.Events()
	for _, e := range events {
		if e.Action == "database_resize" && e.Status == "finished" {
			grown++
		}
	}
	if grown != 1 {
		t.Errorf("it has grown %d times: %+v", grown, events)
	}
}

// askToGrow asks for it and kills the server, which may have begun by then.
func (m *maintained) askToGrow() int {
	m.t.Helper()
	status, _ := m.Call("PUT", m.db.Path(), map[string]any{"autoscale": map[string]any{"enabled": true, "threshold_percent": 50, "max_type": "more"}}, nil)
	m.Kill()
	return status
}
