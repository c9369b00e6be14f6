package crash

import (
	"fmt"
	"testing"

	"steward/test/harness"
)

// forking: whenever steward dies, the fork comes up with all of the backup's
// rows, or wasn't asked for.
func forking(engine string) operation {
	return operation{
		name: "fork", steps: 51,
		prepare: func(w *world) { w.source(engine) },
		ask:     func(w *world) (int, error) { return w.askForFork(engine, map[string]any{"source": w.db.ID}) },
		check:   checkForked,
	}
}

func (w *world) askForFork(engine string, fork map[string]any) (int, error) {
	spec := harness.Small(fmt.Sprintf("fork-%d", w.n), engine)
	spec["fork"] = fork
	status, _, err := w.TryCall("POST", "/v4/databases/"+w.db.Engine+"/instances", spec, nil)
	return status, err
}

// source makes the database to fork from and its backup, once.
func (w *world) source(engine string) {
	w.t.Helper()
	if w.db.ID != 0 {
		if _, there := w.FindBackup(w.db, "first"); there {
			return
		}
	}
	w.keeper(engine, 1)
	w.Snapshot(w.db, "first", "primary")
	w.backedUp = w.rows
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
	if err := w.MustConnect(d, c).QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil || rows != w.backedUp {
		t.Errorf("%d rows, want %d, %v", rows, w.backedUp, err)
	}
	w.disarm()
	if status, body := w.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Errorf("delete: %d %s", status, body)
	}
}
