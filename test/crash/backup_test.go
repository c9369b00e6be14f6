package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/test/harness"
)

// TestBackups kills steward at the steps of backups, restores and forks: no half backup
// is ever listed as one that can be restored, and no row is lost. TestThreeNodes has the
// restore of a cluster of three.
func TestBackups(t *testing.T) { newWorld(t, postgresql).backups(once) }

func TestBackupsThorough(t *testing.T) { newWorld(t, postgresql).backups(2) }

func (w *world) backups(kills int) {
	all := backupOperations("postgresql/15")
	for _, op := range slices.Insert(all, len(all)-1, forking("postgresql/15")) { // the last one deletes the database
		w.try(kills, op)
	}
}

// TestBackupsOfMariaDBThorough: where the engine makes a difference.
func TestBackupsOfMariaDBThorough(t *testing.T) {
	const kills = 2
	w := newWorld(t, mariadb, continuous)
	for _, op := range backupOperations("mysql/10.11") {
		if !op.alike {
			w.try(kills, op)
		}
	}
	w.try(kills, w.forkingMoment("mysql/10.11"))
	w.try(kills, forking("mysql/10.11"))
}

// keeper makes the database that is backed up, once, and adds a row to it.
func (w *world) keeper(engine string, size int) {
	w.t.Helper()
	w.size = size
	if w.db.ID == 0 {
		spec := harness.Small(fmt.Sprintf("crash-%d", w.n), engine)
		spec["cluster_size"] = size
		w.db = w.CreateActive(spec)
		w.cred = w.Credentials(w.db)
		w.rows = 0
		w.exec("CREATE TABLE kept (n int PRIMARY KEY)")
	}
	w.rows++
	w.exec(fmt.Sprintf("INSERT INTO kept VALUES (%d)", w.rows))
}

// backupOperations are those on an engine's database of one node.
func backupOperations(engine string) []operation {
	return []operation{
		{
			name: "snapshot", steps: 19,
			alike:   true,
			prepare: func(w *world) { w.keeper(engine, 1) },
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("POST", w.db.Path()+"/backups", map[string]any{"label": "s", "target": "primary"}, nil)
				return status, err
			},
			check: checkSnapshot,
		},
		restoring(engine, 1),
		{
			name: "delete a backup", steps: 8,
			alike: true,
			prepare: func(w *world) {
				w.keeper(engine, 1)
				w.backup = w.Snapshot(w.db, "gone", "primary")
			},
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("DELETE", w.backup.Path(w.db), nil, nil)
				return status, err
			},
			check: func(t *testing.T, w *world, accepted bool) {
				if !accepted {
					w.drop("gone")
				}
				w.archiveIsEmpty()
				w.mustHaveRows(t, w.rows)
			},
		},
		{
			name: "delete with a last backup", steps: 70,
			alike:   true,
			prepare: func(w *world) { w.keeper(engine, 1) },
			ask: func(w *world) (int, error) {
				status, _, err := w.TryCall("DELETE", w.db.Path()+"?final_backup=true", nil, nil)
				return status, err
			},
			check: checkFinal,
		},
	}
}

// checkFinal: a database that was deleted has a last backup, and one that wasn't is as it was.
func checkFinal(t *testing.T, w *world, accepted bool) {
	t.Helper()
	var finals struct{ Data []struct{ ID int64 } }
	list := func() int {
		if status, body := w.Call("GET", "/v4/databases/final-backups", nil, &finals); status != 200 {
			t.Fatalf("last backups: %d %s", status, body)
		}
		return len(finals.Data)
	}
	if !accepted {
		if status, _ := w.Call("GET", w.db.Path(), nil, nil); status == 200 && w.AwaitStatus(w.db, "active").ID == w.db.ID {
			w.mustHaveRows(t, w.rows)
			if list() > 0 {
				t.Error("a database that is there has a last backup")
			}
			return
		}
	}
	w.Eventually("the database is gone, and has a last backup", func() error {
		if status, body := w.Call("GET", w.db.Path(), nil, nil); status != 404 {
			return fmt.Errorf("%d %s", status, body)
		}
		if list() != 1 || finals.Data[0].ID != int64(w.db.ID) {
			return fmt.Errorf("last backups: %+v", finals.Data)
		}
		return nil
	})
	w.disarm()
	if status, body := w.Call("DELETE", fmt.Sprintf("/v4/databases/final-backups/%d", w.db.ID), nil, nil); status != 200 {
		t.Fatalf("remove the last backup: %d %s", status, body)
	}
	w.db = harness.Database{}
	w.archiveIsEmpty()
}

func restoring(engine string, size int) operation {
	return operation{
		name: "restore", steps: 43,
		prepare: func(w *world) {
			w.keeper(engine, size)
			w.backup, w.backedUp = w.Snapshot(w.db, "kept", "primary"), w.rows
			w.rows++
			w.exec(fmt.Sprintf("INSERT INTO kept VALUES (%d)", w.rows))
		},
		ask: func(w *world) (int, error) {
			status, _, err := w.TryCall("POST", w.backup.Path(w.db)+"/restore", nil, nil)
			return status, err
		},
		at:    []string{"host: restored data serves"},
		check: checkRestored,
	}
}

// checkSnapshot: what was acknowledged is taken, and all that is listed as
// complete restores.
func checkSnapshot(t *testing.T, w *world, accepted bool) {
	t.Helper()
	w.AwaitStatus(w.db, "active")
	w.disarm()
	b, there := w.FindBackup(w.db, "s")
	switch {
	case accepted && !there:
		t.Error("the accepted snapshot is lost")
	case there && b.State != "complete":
		t.Errorf("the snapshot is %+v", b)
	case there:
		w.Restore(w.db, b)
	}
	w.mustHaveRows(t, w.rows)
	w.drop("s")
	w.archiveIsEmpty()
}

// checkRestored: all rows of the time of the backup or, when it wasn't asked
// for, all there were. These are back when the restore is undone.
func checkRestored(t *testing.T, w *world, accepted bool) {
	t.Helper()
	w.AwaitHealthy(w.db, w.size)
	w.disarm()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	rows, err := w.count(ctx)
	if err != nil || rows != w.backedUp && (accepted || rows != w.rows) {
		t.Errorf("%d rows (%v), want %d as in the backup; accepted: %v", rows, err, w.backedUp, accepted)
	}
	if err == nil && rows == w.backedUp {
		if status, body := w.Call("POST", w.db.Path()+"/restore/undo", nil, nil); status != 200 {
			t.Fatalf("undo: %d %s", status, body)
		}
		w.AwaitHealthy(w.db, w.size)
		w.mustHaveRows(t, w.rows)
	}
	w.drop("kept")
	w.archiveIsEmpty()
}

func (w *world) mustHaveRows(t *testing.T, want int) {
	t.Helper()
	rows := 0
	// A connection ends that was made while the way to the new primary was laid.
	w.Eventually("read", func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rows, err = w.count(ctx)
		return err
	})
	if rows != want {
		t.Errorf("%d rows, want %d", rows, want)
	}
}

func (w *world) count(ctx context.Context) (rows int, err error) {
	db, err := harness.Connect(ctx, w.db, w.cred, "")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	return rows, db.QueryRowContext(ctx, "SELECT count(*) FROM kept").Scan(&rows)
}

// drop deletes the backup of a label, if there is one.
func (w *world) drop(label string) {
	w.t.Helper()
	w.disarm()
	w.Eventually(label+" deleted", func() error {
		b, there := w.FindBackup(w.db, label)
		if !there {
			return nil
		}
		status, body := w.Call("DELETE", b.Path(w.db), nil, nil)
		return fmt.Errorf("%d %s", status, body)
	})
}

// archiveIsEmpty waits until nothing of any backup is left, no half one either;
// what recovers the database stays.
func (w *world) archiveIsEmpty() {
	w.t.Helper()
	w.Eventually("empty archive", func() error {
		var left []string
		for _, path := range w.Stored(w.t, "*") {
			if filepath.Base(filepath.Dir(filepath.Dir(path))) == "backups" { // clusters/N/backups/M/…
				left = append(left, path)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
}
