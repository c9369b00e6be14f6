package e2e

import (
	"fmt"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestDatabase does with one database what needs none of its own. MariaDB is the one that speaks first.
func TestDatabase(t *testing.T) {
	t.Parallel()
	s := harness.New(t, ofMariaDB)
	for _, engine := range enginesOr(mariadb) {
		d := s.CreateActive(harness.Small("one-"+strings.Split(engine, "/")[0], engine))
		for _, c := range []struct {
			name string
			try  func(*testing.T, *harness.Server, harness.Database)
		}{{"allow list", allowList}, {"dumps", dumps}, {"nodes", nodesComeAndGo}} {
			t.Run(strings.ReplaceAll(engine, "/", "-")+" "+c.name, func(t *testing.T) { c.try(t, s, d) })
		}
	}
}

// nodesComeAndGo: a database of one node is given two more while it is written to, survives the loss of
// its primary, also where steward's store doesn't answer, and goes back to a single one. Events tell of each.
func nodesComeAndGo(t *testing.T, s *harness.Server, d harness.Database) {
	w := harness.NewWriter(t, s, d)
	three := resizeNodes(t, s, d, 3)
	if len(three.Members) != 3 || three.Port != d.Port {
		t.Errorf("%d members at port %d, before %d", len(three.Members), three.Port, d.Port)
	}
	failoversNeedNoStore(t, s, d)
	if one := resizeNodes(t, s, d, 1); len(one.Members) != 1 {
		t.Errorf("members %v", one.Members)
	}
	w.StopAndCheck()
	if nodes, err := s.Nodes(d); err != nil || len(nodes) != 1 {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	for pid, command := range s.Processes() {
		if strings.Contains(command, "/node-1/") || strings.Contains(command, "/node-2/") {
			t.Errorf("process %d is left: %s", pid, command)
		}
	}
}

// resizeNodes asks for as many nodes, by the command line, and waits for the event.
func resizeNodes(t *testing.T, s *harness.Server, d harness.Database, size int) harness.Database {
	t.Helper()
	out, err := s.Command("db", "update", fmt.Sprint(d.ID), "--nodes", fmt.Sprint(size))
	if err != nil {
		t.Fatalf("%d nodes: %v\n%s", size, err, out)
	}
	for _, e := range eventsOf(t, s, d) {
		if string(e.Action) == "database_resize" && e.Entity != nil && fmt.Sprint(e.Entity.ID) == fmt.Sprint(d.ID) {
			if e.Status != "finished" {
				t.Errorf("%d nodes: %s %s", size, e.Status, e.Message)
			}
			d.Members = nil // an answer's are added to what is there
			return s.AwaitHealthy(d, size)
		}
	}
	t.Fatalf("%d nodes: no event", size)
	return d
}

// TestSmallerTypeThorough: three nodes move to a smaller plan, of fewer connections, while they are written to.
func TestSmallerTypeThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.WithConfig("pool: {size: 0}"))
	for _, engine := range enginesOr(postgresql) {
		t.Run(strings.ReplaceAll(engine, "/", "-"), func(t *testing.T) {
			spec := harness.Small("less-"+strings.Split(engine, "/")[0], engine)
			spec["type"], spec["cluster_size"] = "g6-standard-1", 3
			d := s.CreateActive(spec)
			w := harness.NewWriter(t, s, d)
			s.Eventually("the data's size is known", func() error {
				status, body, err := s.TryCall("PUT", d.Path(), map[string]any{"type": "g6-nanode-1"}, nil)
				if err == nil && status != 200 {
					err = fmt.Errorf("%d %s", status, body)
				}
				return err
			})
			if d = s.AwaitStatus(d, "active"); d.Type != "g6-nanode-1" {
				t.Errorf("type %s", d.Type)
			}
			s.AwaitHealthy(d, 3)
			w.StopAndCheck()
			if engine == postgresql {
				db := s.MustConnect(d, s.Credentials(d))
				if got := one(t, db, "SHOW max_connections"); got != "100" {
					t.Errorf("max_connections is %s", got)
				}
			}
		})
	}
}
