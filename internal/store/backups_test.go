package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func newBackup(t *testing.T, s *store.Store, c cluster.Cluster, kind backup.Type, label string) backup.Backup {
	t.Helper()
	b := backup.Backup{Account: c.Account, Cluster: c.ID, Type: kind, Label: label, Target: backup.FromPrimary}
	inTx(t, s, func(tx *store.Tx) (err error) {
		b, err = tx.CreateBackup(t.Context(), b)
		return err
	})
	return b
}

func finished(t *testing.T, s *store.Store, b backup.Backup) backup.Backup {
	t.Helper()
	b.State, b.Bytes, b.StoredBytes, b.Installation = backup.Complete, 300, 100, "postgresql-15.1"
	inTx(t, s, func(tx *store.Tx) error { return tx.FinishBackup(t.Context(), b) })
	b, err := s.BackupForWork(t.Context(), b.ID)
	if err != nil || b.Finished == nil || b.State != backup.Complete {
		t.Fatalf("%+v, %v", b, err)
	}
	return b
}

func TestBackupLife(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	c := newCluster(t, s, newAccount(t, s, "a").Account, "db")
	v := store.Viewer{Account: c.Account}
	b := newBackup(t, s, c, backup.Snapshot, "first")
	if got, err := s.Backup(ctx, v, c.ID, b.ID); err != nil || !cmp.Equal(b, got, sameInstant) {
		t.Errorf("listed from its start on: %v %s", err, cmp.Diff(b, got, sameInstant))
	}
	stale := func(what string, f func(tx *store.Tx) error) {
		t.Helper()
		if err := s.InTx(ctx, f); !errors.Is(err, store.ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
	stale("deleted while it runs", func(tx *store.Tx) error { return tx.MarkDeleting(ctx, b.ID) })
	stale("verified while it runs", func(tx *store.Tx) error { return tx.BackupVerified(ctx, b.ID, "") })
	done := finished(t, s, b)
	stale("finished twice", func(tx *store.Tx) error { return tx.FinishBackup(ctx, done) })
	for _, problem := range []string{"", "page 7 is torn"} {
		inTx(t, s, func(tx *store.Tx) error { return tx.BackupVerified(ctx, b.ID, problem) })
		if got, err := s.BackupForWork(ctx, b.ID); err != nil || (got.Verified == nil) == (problem == "") || got.Problem != problem {
			t.Errorf("verified with %q: %+v, %v", problem, got, err)
		}
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleting(ctx, b.ID) })
	stale("deleted twice", func(tx *store.Tx) error { return tx.MarkDeleting(ctx, b.ID) })
	if _, err := s.Backup(ctx, v, c.ID, b.ID); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("seen while it is being deleted: %v", err)
	}
	if all, err := s.BackupsForWork(ctx); err != nil || len(all[c.ID]) != 1 {
		t.Errorf("for work: %+v, %v", all, err)
	}
	if err := s.ForgetBackup(ctx, b.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BackupForWork(ctx, b.ID); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("forgotten: %v", err)
	}
}

func TestBackupsOfOneDatabase(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	c := newCluster(t, s, newAccount(t, s, "a").Account, "db")
	other := newCluster(t, s, c.Account, "other")
	try := func(of cluster.Cluster, label string) error {
		return s.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := tx.CreateBackup(t.Context(), backup.Backup{Account: of.Account, Cluster: of.ID, Type: backup.Snapshot, Label: label, Target: backup.FromPrimary})
			return err
		})
	}
	b := newBackup(t, s, c, backup.Snapshot, "same")
	if err := try(c, "second"); !errors.Is(err, store.BackupRuns()) {
		t.Errorf("two at once: %v", err)
	}
	finished(t, s, b)
	if err := try(c, "same"); !errors.Is(err, store.BackupLabelTaken()) {
		t.Errorf("a label that is taken: %v", err)
	}
	if err := try(other, "same"); err != nil {
		t.Errorf("another database's label: %v", err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleting(t.Context(), b.ID) })
	if err := try(c, "same"); err != nil {
		t.Errorf("the label of one that is being deleted: %v", err)
	}
}

func TestBackupsAreListedToTheirOwners(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	ctx := t.Context()
	owner := newAccount(t, s, "a")
	c := newCluster(t, s, owner.Account, "db")
	var all []backup.Backup
	for i, kind := range []backup.Type{backup.Auto, backup.Snapshot, backup.Auto} {
		now = now.Add(24 * time.Hour)
		all = append(all, finished(t, s, newBackup(t, s, c, kind, []string{"auto-1", "mine", "auto-2"}[i])))
	}
	list := func(v store.Viewer, text string) []backup.ID {
		t.Helper()
		f, err := filter.Parse(text, store.BackupFields)
		if err != nil {
			t.Fatal(err)
		}
		found, total, err := s.Backups(ctx, v, c.ID, store.ListQuery{Filter: f})
		if err != nil || total != len(found) {
			t.Fatalf("%d of %d, %v", len(found), total, err)
		}
		var ids []backup.ID
		for _, b := range found {
			ids = append(ids, b.ID)
		}
		return ids
	}
	v := store.Viewer{Account: owner.Account}
	for text, want := range map[string][]backup.ID{
		"":                 {all[2].ID, all[1].ID, all[0].ID},
		`{"type": "auto"}`: {all[2].ID, all[0].ID},
		`{"label": {"+contains": "auto"}, "+order_by": "created", "+order": "asc"}`: {all[0].ID, all[2].ID},
		`{"created": {"+gt": "2026-02-02T00:00:00"}}`:                               {all[2].ID},
	} {
		if got := list(v, text); !cmp.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if got := list(store.Viewer{Account: newAccount(t, s, "b").Account}, ""); got != nil {
		t.Errorf("a stranger sees %v", got)
	}
	restricted, err := s.CreateUser(ctx, account.User{Account: owner.Account, Username: "r", Email: "r@example.org", Restricted: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := store.ViewerOf(account.Principal{Account: owner.Account, User: restricted})
	if got := list(seen, ""); got != nil {
		t.Errorf("without a grant %v are seen", got)
	}
	if err := s.SetGrant(ctx, restricted, c.ID, account.ReadOnly); err != nil {
		t.Fatal(err)
	}
	if got := list(seen, ""); len(got) != 3 {
		t.Errorf("with a grant %v are seen", got)
	}
	if found, total, err := s.Backups(ctx, v, c.ID, store.ListQuery{Page: store.Page{Number: 7, Size: 25}}); err != nil || len(found) != 0 || total != 3 {
		t.Errorf("past the end: %v of %d, %v", found, total, err)
	}
}

func TestBackupsGoWithTheirDatabase(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	c := newCluster(t, s, newAccount(t, s, "a").Account, "db")
	finished(t, s, newBackup(t, s, c, backup.Snapshot, "mine"))
	inTx(t, s, func(tx *store.Tx) error {
		return errors.Join(tx.MarkDeleted(t.Context(), c), tx.RemoveCluster(t.Context(), c.ID))
	})
	if all, err := s.BackupsForWork(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestCredentialsResetSince(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	c := newCluster(t, s, newAccount(t, s, "a").Account, "db")
	before := time.Now()
	if reset, err := s.CredentialsResetSince(t.Context(), c.ID, before); reset || err != nil {
		t.Errorf("without any: %v, %v", reset, err)
	}
	newOperation(t, s, operation.Operation{Account: c.Account, Cluster: c.ID, Engine: c.Engine, Action: operation.CredentialsReset, Status: operation.Scheduled})
	for since, want := range map[time.Time]bool{before: true, time.Now(): false} {
		if reset, err := s.CredentialsResetSince(t.Context(), c.ID, since); reset != want || err != nil {
			t.Errorf("since %s: %v, %v", since, reset, err)
		}
	}
	for _, locked := range []bool{true, false} {
		if err := s.SetLockedOut(context.Background(), c.ID, locked); err != nil {
			t.Fatal(err)
		}
		if c, err := s.ClusterForWork(t.Context(), c.ID); err != nil || c.LockedOut != locked {
			t.Errorf("%+v, %v", c, err)
		}
	}
}

// TestABackupHasALeaseOfItsOwn: it takes hours, in which a database is looked after.
func TestABackupHasALeaseOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := servers(t)
	_, release := lease(t, a, 7)
	defer release()
	_, done, ok, err := b.LeaseBackup(t.Context(), 7)
	if err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if _, _, ok, err := a.LeaseBackup(t.Context(), 7); ok || err != nil {
		t.Errorf("given twice: %v, %v", ok, err)
	}
	done()
	if _, done, ok, err := a.LeaseBackup(t.Context(), 7); !ok || err != nil {
		t.Errorf("not given back: %v, %v", ok, err)
	} else {
		done()
	}
}
