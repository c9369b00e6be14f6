package operator

import (
	"testing"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestUndoNamesTheBackupThatItUndoes: the one that was put in place last, with the
// label that it had, unless none is in place or it was undone already.
func TestUndoNamesTheBackupThatItUndoes(t *testing.T) {
	t.Parallel()
	x := &Access{store: pgtest.Store(t)}
	c := anyCluster(t, x.store)
	restored := func(id backup.ID, label string, touched bool) operation.Params {
		return operation.Params{Backup: id, BackupLabel: label, Touched: touched}
	}
	type done struct {
		action operation.Action
		params operation.Params
	}
	for _, one := range []struct {
		name string
		done []done
		want backup.ID
	}{
		{"nothing was restored", nil, 0},
		{"the last of two", []done{{operation.Restore, restored(3, "three", true)}, {operation.Restore, restored(4, "four", true)}}, 4},
		{"one that failed before it touched anything", []done{{operation.Restore, restored(5, "five", false)}}, 4},
		{"an undo that failed as early", []done{{operation.RestoreUndo, restored(4, "four", false)}}, 4},
		{"after it was undone", []done{{operation.RestoreUndo, operation.Params{Touched: true}}}, 0},
	} {
		for _, d := range one.done {
			within(t, x.store, func(tx *store.Tx) error {
				_, err := tx.CreateOperation(t.Context(), operation.Operation{
					Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: d.action, Status: operation.Notification, Params: d.params,
				})
				return err
			})
		}
		if _, err := x.store.Pool().Exec(t.Context(), "WITH ended AS (UPDATE operations SET status = 'failed', finished = now() WHERE status = 'scheduled') UPDATE clusters SET status = 'active'"); err != nil {
			t.Fatal(err)
		}
		if err := x.UndoRestore(t.Context(), int64(c.ID)); err != nil {
			t.Fatal(err)
		}
		undo := lastOperation(t, x.store)
		labels := map[backup.ID]string{0: "", 4: "four"}
		if undo.Action != operation.RestoreUndo || undo.Params.Backup != one.want || undo.Params.BackupLabel != labels[one.want] {
			t.Errorf("%s: %+v", one.name, undo)
		}
	}
}

func within(t *testing.T, s *store.Store, do func(*store.Tx) error) {
	t.Helper()
	if err := s.InTx(t.Context(), do); err != nil {
		t.Fatal(err)
	}
}

func anyCluster(t *testing.T, s *store.Store) (c cluster.Cluster) {
	t.Helper()
	var owner account.ID
	if err := s.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&owner); err != nil {
		t.Fatal(err)
	}
	within(t, s, func(tx *store.Tx) (err error) {
		c, err = tx.CreateCluster(t.Context(), cluster.Cluster{Account: owner, Spec: cluster.Spec{
			Label: "db", Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1,
			AllowList: cluster.AllowList{}, Replication: cluster.ReplicationNone, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(1),
		}}, nil, store.Ports{First: 30000, Last: 30001})
		return err
	})
	return c
}

func lastOperation(t *testing.T, s *store.Store) operation.Operation {
	t.Helper()
	var id operation.ID
	if err := s.Pool().QueryRow(t.Context(), "SELECT id FROM operations ORDER BY id DESC LIMIT 1").Scan(&id); err != nil {
		t.Fatal(err)
	}
	found, err := s.OperationForWork(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
