package crash

import (
	"fmt"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestFork: whenever steward dies, the fork comes up with all of the backup's
// rows, or wasn't asked for.
func TestFork(t *testing.T) {
	for _, engine := range []string{"postgresql/15", "mysql/10.11"} {
		t.Run(strings.ReplaceAll(engine, "/", "-"), func(t *testing.T) {
			oneStep(t, operation{
				name:    "fork",
				prepare: func(w *world) { w.source(engine) },
				ask: func(w *world) (int, error) {
					spec := harness.Small(fmt.Sprintf("fork-%d", w.n), engine)
					spec["fork"] = map[string]any{"source": w.db.ID}
					status, _, err := w.TryCall("POST", "/v4/databases/"+w.db.Engine+"/instances", spec, nil)
					return status, err
				},
				check: checkForked,
			})
		})
	}
}

// source makes the database to fork from, once.
func (w *world) source(engine string) {
	w.t.Helper()
	if w.db.ID == 0 {
		w.keeper(engine, 1)
		w.Snapshot(w.db, "first", "primary")
	}
}

func checkForked(t *testing.T, w *world, accepted bool) {
	found := w.byLabel(fmt.Sprintf("fork-%d", w.n))
	if len(found) == 0 {
		if accepted {
			t.Error("the accepted fork is lost")
		}
		return
	}
	d := w.AwaitStatus(found[0], "active")
	c := w.Credentials(d)
	if c.Password == w.cred.Password {
		t.Error("the fork has the source's password")
	}
	rows := 0
	if err := w.MustConnect(d, c).QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	w.disarm()
	if status, body := w.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Errorf("delete: %d %s", status, body)
	}
}
