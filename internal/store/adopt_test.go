package store_test

import (
	"context"
	"testing"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/store"
)

// TestAdopt: a database and its backups keep their ids, and what is made
// afterwards gets others.
func TestAdopt(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	adopt := func(c cluster.Cluster) (made cluster.Cluster, err error) {
		err = s.InTx(t.Context(), func(tx *store.Tx) error {
			if made, err = tx.AdoptCluster(t.Context(), c, map[platform.SecretName][]byte{platform.RootPassword: []byte("secret")}, ports); err != nil {
				return err
			}
			for id, label := range map[backup.ID]string{90: "one", 91: "two"} {
				b := backup.Backup{ID: id, Account: c.Account, Cluster: c.ID, Type: backup.Snapshot, Label: label, Created: time.Now(), Bytes: 5}
				if err := tx.AdoptBackup(t.Context(), b); err != nil {
					return err
				}
			}
			return nil
		})
		return made, err
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	old := cluster.Cluster{ID: 40, Account: u.Account, Spec: spec("one"), Port: ports.First + 3, Created: created}
	made, err := adopt(old)
	if err != nil || made.ID != 40 || made.Port != old.Port || !made.Created.Equal(created) || made.Status != cluster.Provisioning {
		t.Fatalf("%+v, %v", made, err)
	}
	if all, err := s.Secrets(t.Context(), 40); err != nil || string(all[platform.RootPassword]) != "secret" || len(all) != 1 {
		t.Errorf("secrets %q, %v", all, err)
	}
	kept, err := s.BackupsOf(t.Context(), 40)
	if err != nil || len(kept) != 2 || kept[0].ID != 91 || kept[0].State != backup.Complete || kept[0].Bytes != 5 {
		t.Errorf("%+v, %v", kept, err)
	}
	if next, err := create(t.Context(), s, u.Account, spec("two")); err != nil || next.ID <= 40 {
		t.Errorf("the next database is %d, %v", next.ID, err)
	}
	old.ID = 30
	if _, err := adopt(old); !fault.IsKind(err, fault.Invalid) {
		t.Errorf("a label that is taken: %v", err)
	}
	old.Label, old.ID = "three", 20
	if made, err := adoptAlone(t.Context(), s, old); err != nil || made.Port == old.Port {
		t.Errorf("a port that is taken: %+v, %v", made, err)
	}
}

func adoptAlone(ctx context.Context, s *store.Store, c cluster.Cluster) (made cluster.Cluster, err error) {
	err = s.InTx(ctx, func(tx *store.Tx) error {
		made, err = tx.AdoptCluster(ctx, c, nil, ports)
		return err
	})
	return made, err
}
