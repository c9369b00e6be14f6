package crash

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/pgtest"
	"steward/test/harness"
)

// TestMaintenance kills steward in two maintenance windows of one
// cluster of three, which is written to all the time: at a step of a node's turn
// and in the switchover. The first window ends while
// steward is down: what is left waits for the second one, which finishes it. Each of
// them is told of once, and no acknowledged write is lost.
func TestMaintenance(t *testing.T) {
	maintenance(t, []string{"host: after stop"}, []string{"host: old primary has stopped writing"})
}

// TestMaintenanceThorough does so over and over: at the beginning of the work, too.
func TestMaintenanceThorough(t *testing.T) {
	maintenance(t,
		[]string{"converge: before maintenance begins", "converge: after maintenance begins", "host: after stop"},
		[]string{"operate: before apply", "host: before switchover", "host: old primary has stopped writing", "host: new primary recorded"})
}

func maintenance(t *testing.T, first, second []string) {
	t.Parallel()
	const older, newer = "postgresql-15.17-npm", "postgresql-15.18-npm"
	for _, build := range []string{older, newer} {
		if _, err := os.Stat(filepath.Join(harness.EnginesFolder(), build)); err != nil {
			t.Fatal("run make engines-ci: ", err)
		}
	}
	m := &maintained{store: pgtest.MigratedURL(t), Server: harness.Prepare(t, postgresql, harness.WithTags("failpoint"), harness.WithConfig("pool: {size: 0}\nmaintenance: {notify: true}")), t: t}
	m.Start("--store", m.store)
	harness.BeginWith(t, m.store, older)
	if status, body := m.Call("POST", "/v4/managed/contacts", map[string]any{"name": "Ann", "email": "ann@example.org"}, nil); status != 200 {
		t.Fatal(body)
	}
	opens := time.Now().UTC().Add(90 * time.Minute).Truncate(time.Hour)
	spec := three("windows", "postgresql/15")
	spec["replication_commit_type"] = "on"
	m.db = m.CreateActive(spec)
	window := map[string]any{"frequency": "weekly", "duration": 4, "hour_of_day": opens.Hour(), "day_of_week": (int(opens.Weekday())+6)%7 + 1}
	if status, body := m.Call("PUT", m.db.Path(), map[string]any{"updates": window}, nil); status != 200 {
		t.Fatal(body)
	}
	m.Eventually("told ahead", func() error { return m.mustBe("announced") })
	w := harness.NewWriter(t, m.Server, m.db)
	m.Stop()

	m.ahead = time.Until(opens.Add(time.Minute))
	for _, point := range first {
		m.dieAt(point)
	}
	m.ahead += 5 * time.Hour
	m.start()
	m.Eventually("the first window's end", func() error { return m.mustBe("announced", "begun", "unfinished") })
	m.AwaitHealthy(m.db, 3)
	if moved := m.on(newer); moved == 3 {
		t.Error("all were moved though the window was over")
	}
	m.Stop()

	m.ahead = time.Until(opens.AddDate(0, 0, 7).Add(time.Minute))
	for _, point := range second {
		m.dieAt(point)
	}
	m.start()
	m.Eventually("the second window's end", func() error { return m.mustBe("announced", "begun", "unfinished", "begun", "done") })
	m.AwaitHealthy(m.db, 3)
	if moved := m.on(newer); moved != 3 {
		t.Errorf("%d nodes were moved", moved)
	}
	w.StopAndCheck()
	m.mustHaveEvents("finished The servers moved from version 15.17 to 15.18.",
		"failed The maintenance window ended before all was done; what is left waits for the next one.")
}

// maintained is a server on a store of the test's, with a database.
type maintained struct {
	*harness.Server
	t     *testing.T
	store string
	db    harness.Database
	// ahead is by how much the server's clock is, from its next start on.
	ahead time.Duration
}

// dieAt serves until the failpoint is reached.
func (m *maintained) dieAt(point string) {
	m.t.Helper()
	m.Env = []string{"STEWARD_CLOCK_AHEAD=" + m.ahead.String(), "STEWARD_FAILPOINT=" + point}
	m.Launch("--store", m.store)
	select {
	case <-m.Exited():
	case <-time.After(harness.Patience):
		m.t.Fatalf("%s wasn't reached\n%s", point, m.LogTail())
	}
}

// start serves without a failpoint.
func (m *maintained) start() {
	m.t.Helper()
	m.Env = []string{"STEWARD_CLOCK_AHEAD=" + m.ahead.String()}
	m.Start("--store", m.store)
}

// mustBe is nil when contacts were, or would have been, told just that, oldest first.
func (m *maintained) mustBe(kinds ...string) error {
	out, err := m.Command("notice", "list", "--data", m.Data, "--store", m.store, "--json")
	if err != nil {
		return errors.New(out)
	}
	var list []struct{ Kind string }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	var told []string
	for _, n := range slices.Backward(list) {
		told = append(told, n.Kind)
	}
	if !slices.Equal(told, kinds) {
		return fmt.Errorf("%v", told)
	}
	return nil
}

// mustHaveEvents demands what the events of windows' work say, newest first.
func (m *maintained) mustHaveEvents(want ...string) {
	m.t.Helper()
	var got []string
	for _, e := range m.Events() {
		if e.Action == "database_maintenance" {
			got = append(got, e.Status+" "+e.Message)
		}
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("events:\n%s", strings.Join(got, "\n"))
	}
}

// on counts the nodes that run a build.
func (m *maintained) on(build string) (n int) {
	m.t.Helper()
	nodes, err := m.Nodes(m.db)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, node := range nodes {
		if node.Installation == build {
			n++
		}
	}
	return n
}
