package control_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

func (b *bench) snapshot(p account.Principal, c cluster.Cluster, label string, target backup.Target) error {
	return b.Backups.Create(b.t.Context(), p, c.Engine, c.ID, control.NewSnapshot{Label: label, Target: target}, nil)
}

func (b *bench) backups(p account.Principal, c cluster.Cluster) []backup.Backup {
	b.t.Helper()
	all, _, err := b.Backups.List(b.t.Context(), p, c.Engine, c.ID, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// ends makes the backup that runs end in a state, as a worker does.
func (b *bench) ends(c cluster.Cluster, state backup.State) backup.Backup {
	b.t.Helper()
	all, err := b.store.BackupsOf(b.t.Context(), c.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	done := all[0]
	done.State = state
	err = b.store.InTx(b.t.Context(), func(tx *store.Tx) error {
		now, err := tx.ClusterForWork(b.t.Context(), c.ID)
		if err != nil {
			return err
		}
		if _, err := tx.Transition(b.t.Context(), now, cluster.Ready); err != nil {
			return err
		}
		return tx.FinishBackup(b.t.Context(), done)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return done
}

// kept makes a complete snapshot.
func (b *bench) kept(p account.Principal, c cluster.Cluster, label string) backup.Backup {
	b.t.Helper()
	if err := b.snapshot(p, c, label, ""); err != nil {
		b.t.Fatal(err)
	}
	return b.ends(c, backup.Complete)
}

func (b *bench) setStatus(c cluster.Cluster, status cluster.Status) {
	b.t.Helper()
	if _, err := b.store.Pool().Exec(b.t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", status, c.ID); err != nil {
		b.t.Fatal(err)
	}
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	if err := b.snapshot(p, c, "beforeMigration", backup.FromSecondary); err != nil {
		t.Fatal(err)
	}
	if c := b.view(p, c.ID); c.Status != cluster.BackingUp {
		t.Errorf("the database is %s", c.Status)
	}
	all := b.backups(p, c)
	if len(all) != 1 || all[0].State != backup.Running || all[0].Type != backup.Snapshot || all[0].Label != "beforeMigration" || all[0].Target != backup.FromPrimary {
		t.Fatalf("%+v", all)
	}
	events := b.events(p, c.ID)
	if len(events) != 1 || events[0].Action != operation.Backup || events[0].Params.Backup != all[0].ID || !slices.Contains(b.woken, events[0].ID) {
		t.Errorf("%+v", events)
	}
	one, err := b.Backups.View(t.Context(), p, c.Engine, c.ID, all[0].ID)
	if err != nil || !cmp.Equal(one, all[0]) {
		t.Errorf("%+v, %v", one, err)
	}
}

// TestSnapshotAnswersAllFaultsTogether: those of the request, of the status and
// of what there is already.
func TestSnapshotAnswersAllFaultsTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	for _, label := range []string{"a", "b", "c"} {
		b.kept(p, c, label)
	}
	err := b.snapshot(p, c, "a", "")
	if diff := cmp.Diff([]string{
		"label: Label must be unique among the database's backups",
		"The database has 3 snapshots, and there can't be more; delete one of them first.",
	}, texts(err)); diff != "" {
		t.Error(diff)
	}
	if err := b.snapshot(p, c, "", "moon"); len(texts(err)) != 3 {
		t.Errorf("no label, no such target, a fourth: %v", err)
	}
	b.setStatus(c, cluster.Updating)
	if err := b.snapshot(p, c, "", "moon"); len(texts(err)) != 4 || kind(err) == 0 {
		t.Errorf("updating too: %v", err)
	}
	if n := len(b.backups(p, c)); n != 3 {
		t.Errorf("%d backups", n)
	}
	b.setStatus(c, cluster.Active)
	if err := b.Backups.Delete(t.Context(), p, c.Engine, c.ID, b.backups(p, c)[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := b.snapshot(p, c, "c", ""); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

// TestOneSnapshotAtOnce: however many are asked for at the same time.
func TestOneSnapshotAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	var mu sync.Mutex
	var asked sync.WaitGroup
	accepted := 0
	for _, label := range []string{"a", "b", "c", "d", "e"} {
		asked.Go(func() {
			err := b.snapshot(p, c, label, "")
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else if kind(err) != fault.Precondition {
				t.Errorf("%s: %v", label, err)
			}
		})
	}
	asked.Wait()
	if accepted != 1 {
		t.Errorf("%d were accepted", accepted)
	}
}

// TestAFailedSnapshotTakesNoPlace: but its label is in the list until it is deleted.
func TestAFailedSnapshotTakesNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	b.kept(p, c, "a")
	b.kept(p, c, "b")
	if err := b.snapshot(p, c, "broken", ""); err != nil {
		t.Fatal(err)
	}
	failed := b.ends(c, backup.Failed)
	if err := b.Backups.Restore(t.Context(), p, c.Engine, c.ID, failed.ID); kind(err) != fault.Precondition || !strings.Contains(err.Error(), "failed") {
		t.Errorf("restored: %v", err)
	}
	if err := b.snapshot(p, c, "broken", ""); kind(err) != fault.Invalid {
		t.Errorf("its label: %v", err)
	}
	b.kept(p, c, "c")
	if err := b.Backups.Delete(t.Context(), p, c.Engine, c.ID, failed.ID); err != nil {
		t.Errorf("deleted: %v", err)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	restore := func(id backup.ID) error { return b.Backups.Restore(t.Context(), p, c.Engine, c.ID, id) }
	if err := b.snapshot(p, c, "s", ""); err != nil {
		t.Fatal(err)
	}
	running := b.backups(p, c)[0]
	if err := restore(running.ID); len(texts(err)) != 2 || !strings.Contains(err.Error(), "once it is complete") {
		t.Errorf("one that runs: %v", err)
	}
	if err := b.Backups.Delete(t.Context(), p, c.Engine, c.ID, running.ID); kind(err) != fault.Precondition {
		t.Errorf("one that runs deleted: %v", err)
	}
	kept := b.ends(c, backup.Complete)
	for status, want := range map[cluster.Status]bool{cluster.Active: false, cluster.Degraded: false, cluster.Failed: true} {
		b.setStatus(c, status)
		if err := restore(kept.ID); err != nil {
			t.Fatalf("%s: %v", status, err)
		}
		events := b.events(p, c.ID)
		last := events[len(events)-1]
		if now := b.view(p, c.ID); now.Status != cluster.Restoring || last.Action != operation.Restore || last.Params.Backup != kept.ID || last.Params.Failed != want {
			t.Errorf("%s, %+v", now.Status, last)
		}
		if err := restore(kept.ID); kind(err) != fault.Precondition {
			t.Errorf("twice: %v", err)
		}
		if err := b.Backups.Delete(t.Context(), p, c.Engine, c.ID, kept.ID); kind(err) != fault.Precondition || !strings.Contains(err.Error(), "being restored") {
			t.Errorf("deleted while it is restored: %v", err)
		}
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE operations SET status = 'finished', finished = now() WHERE id = $1", last.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := restore(99999); kind(err) != fault.NotFound {
		t.Errorf("one that isn't there: %v", err)
	}
}

func TestDeleteBackup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.in(p, cluster.Active)
	kept := b.kept(p, c, "s")
	b.setStatus(c, cluster.Suspended)
	if err := b.Backups.Delete(t.Context(), p, c.Engine, c.ID, kept.ID); err != nil {
		t.Fatal(err)
	}
	events := b.events(p, c.ID)
	if last := events[len(events)-1]; last.Action != operation.BackupDelete || last.Params.Backup != kept.ID {
		t.Errorf("%+v", last)
	}
	if len(b.backups(p, c)) != 0 {
		t.Error("it is still listed")
	}
	if err := b.Backups.Delete(t.Context(), p, c.Engine, c.ID, kept.ID); kind(err) != fault.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
}

// TestBackupsOfOthers: a stranger finds nothing, whoever may only read does nothing.
func TestBackupsOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	owner, stranger := b.tenant("owner"), b.tenant("stranger")
	c := b.in(owner, cluster.Active)
	kept := b.kept(owner, c, "s")
	reader, writer, outsider := b.restricted(owner.Account, "reader"), b.restricted(owner.Account, "writer"), b.restricted(owner.Account, "outsider")
	b.grant(reader, c.ID, account.ReadOnly)
	b.grant(writer, c.ID, account.ReadWrite)
	calls := map[string]func(context.Context, account.Principal) error{
		"list": func(ctx context.Context, p account.Principal) error {
			_, _, err := b.Backups.List(ctx, p, c.Engine, c.ID, store.ListQuery{})
			return err
		},
		"view": func(ctx context.Context, p account.Principal) error {
			_, err := b.Backups.View(ctx, p, c.Engine, c.ID, kept.ID)
			return err
		},
		"create": func(_ context.Context, p account.Principal) error { return b.snapshot(p, c, "t", "") },
		"delete": func(ctx context.Context, p account.Principal) error {
			return b.Backups.Delete(ctx, p, c.Engine, c.ID, kept.ID)
		},
		"restore": func(ctx context.Context, p account.Principal) error {
			return b.Backups.Restore(ctx, p, c.Engine, c.ID, kept.ID)
		},
	}
	for name, call := range calls {
		for _, p := range []account.Principal{stranger, outsider} {
			if err := call(t.Context(), p); kind(err) != fault.NotFound {
				t.Errorf("%s by %s: %v", name, p.User.Username, err)
			}
		}
		want := fault.Forbidden
		if name == "list" || name == "view" {
			want = 0
		}
		if err := call(t.Context(), reader); kind(err) != want {
			t.Errorf("%s by a reader: %v", name, err)
		}
	}
	if err := calls["create"](t.Context(), writer); err != nil {
		t.Errorf("create by a writer: %v", err)
	}
	other := b.in(owner, cluster.Active)
	if _, err := b.Backups.View(t.Context(), owner, other.Engine, other.ID, kept.ID); kind(err) != fault.NotFound {
		t.Errorf("another database's backup: %v", err)
	}
	if _, err := b.Backups.View(t.Context(), owner, cluster.MySQL, c.ID, kept.ID); kind(err) != fault.NotFound {
		t.Errorf("as another engine's: %v", err)
	}
}

func TestBackupsBeforeTheDatabaseIsThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.tenant("one")
	c := b.create(p)
	_, _, err := b.Backups.List(t.Context(), p, c.Engine, c.ID, store.ListQuery{})
	if diff := cmp.Diff([]string{"The database is provisioning; it can be asked for its backups once it is active."}, texts(err)); diff != "" {
		t.Error(diff)
	}
}
