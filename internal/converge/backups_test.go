package converge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/archive/archivetest"
	"steward/internal/await"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/converge"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// evening is when the tests of backups begin.
var evening = time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)

// backupBench is a bench with an archive, and a clock that the test moves.
type backupBench struct {
	*bench
	archive *archivetest.Memory
	clock   atomic.Pointer[time.Time]
	// asked counts how often the keeper asked for the time: in each of its looks.
	asked   atomic.Int64
	options converge.BackupOptions
	// recovery is the keeper's, from the next restart on.
	recovery *notes
}

func newBackupBench(t *testing.T, options converge.BackupOptions) *backupBench {
	t.Helper()
	v := &backupBench{archive: archivetest.New(), options: options, recovery: &notes{}}
	v.at(evening)
	v.archive.Now = v.now
	v.options.Every = 25 * time.Millisecond
	v.bench = newBench(t, pgtest.WithNow(v.now))
	v.restart()
	return v
}

func (v *backupBench) now() time.Time       { return *v.clock.Load() }
func (v *backupBench) at(now time.Time)     { v.clock.Store(&now) }
func (v *backupBench) pass(d time.Duration) { v.at(v.now().Add(d)) }

// restart replaces the process; between stop and start nobody runs.
func (v *backupBench) restart() {
	v.keeper.Stop()
	v.operator = operate.New(operate.Options{
		Store: v.store, Driver: v.driver, Catalog: v.plans, Archive: v.archive, Recovery: v.recovery, Logger: v.operator.Logger, Now: v.now,
		KeepDeleted: v.options.KeepDeleted, Limits: operate.Limits{Quick: time.Nanosecond},
	})
	v.keep(converge.Options{
		Every: 50 * time.Millisecond, Grace: 300 * time.Millisecond, Orphans: 50 * time.Millisecond,
		Archive: v.archive, Backups: v.options, Recovery: v.recovery,
		Now: func() time.Time { v.asked.Add(1); return v.now() },
	})
}

// notes counts which databases' recovery is looked after.
type notes struct{ atomic.Int64 }

func (n *notes) Save(context.Context, cluster.ID) error { return nil }

func (n *notes) Current(cluster.Cluster) bool { return false }

func (n *notes) Refresh(context.Context, cluster.Cluster) error {
	n.Add(1)
	return nil
}

// TestRecoveryIsKeptCurrent: of what has a backup, and isn't deleted.
func TestRecoveryIsKeptCurrent(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	seen := &notes{}
	v.recovery = seen
	v.restart()
	c := v.active()
	v.quiet()
	if n := seen.Load(); n > 0 {
		t.Errorf("looked at %d times without a backup", n)
	}
	v.snapshot(c, "one")
	await.True(v.t, "looked at", func() bool { return seen.Load() > 0 })
}

// quiet waits until the keeper has looked a few times.
func (v *backupBench) quiet() {
	v.t.Helper()
	before := v.asked.Load()
	await.True(v.t, "looked a few times", func() bool { return v.asked.Load() >= before+20 })
}

// carryOut does what operations are waiting of a database.
func (v *backupBench) carryOut(c cluster.Cluster) {
	v.t.Helper()
	going, err := v.store.UnfinishedOperations(v.t.Context(), c.ID)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, o := range going {
		for range 5 {
			if _, err := v.operator.Run(v.t.Context(), o.ID); err != nil {
				v.t.Fatal(err)
			}
		}
	}
}

// midnight moves to the next day and lets its backup be taken.
func (v *backupBench) midnight(c cluster.Cluster) {
	v.t.Helper()
	v.at(v.now().Truncate(24 * time.Hour).Add(25 * time.Hour))
	v.mustBecome(c.ID, cluster.BackingUp)
	v.carryOut(c)
	v.mustBecome(c.ID, cluster.Active)
}

func (v *backupBench) labels(c cluster.Cluster) []string {
	v.t.Helper()
	all, err := v.store.BackupsOf(v.t.Context(), c.ID)
	if err != nil {
		v.t.Fatal(err)
	}
	var labels []string
	for _, b := range all {
		labels = append(labels, b.Label)
	}
	return labels
}

func (v *backupBench) mustList(c cluster.Cluster, want ...string) {
	v.t.Helper()
	v.quiet()
	if diff := cmp.Diff(want, v.labels(c)); diff != "" {
		v.t.Errorf("-want +got\n%s", diff)
	}
}

func (v *backupBench) newest(c cluster.Cluster) backup.Backup {
	v.t.Helper()
	all, err := v.store.BackupsOf(v.t.Context(), c.ID)
	if err != nil || len(all) == 0 {
		v.t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func (v *backupBench) snapshot(c cluster.Cluster, label string) backup.Backup {
	v.t.Helper()
	if err := v.control.Backups.Create(v.t.Context(), v.admin, c.Engine, c.ID, control.NewSnapshot{Label: label}, nil); err != nil {
		v.t.Fatal(err)
	}
	v.carryOut(c)
	return v.newest(c)
}

func TestAutomaticBackupsAreDaily(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.at(time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC))
	v.mustList(c)
	v.midnight(c)
	v.mustList(c, "auto20260201")
	b := v.newest(c)
	if b.Type != backup.Auto || b.State != backup.Complete || b.Target != backup.FromPrimary {
		t.Errorf("%+v", b)
	}
	if o := v.events(c.ID)[0]; o.Action != operation.Backup || o.Username != "" || o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	v.at(time.Date(2026, 2, 1, 23, 59, 59, 0, time.UTC))
	v.mustList(c, "auto20260201")
	v.midnight(c)
	v.mustList(c, "auto20260202", "auto20260201")
}

func TestOfThreeNodesAReplicaIsBackedUp(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.activeOf(3)
	v.midnight(c)
	if b := v.newest(c); b.Target != backup.FromSecondary || b.State != backup.Complete {
		t.Errorf("%+v", b)
	}
}

// TestMissedBackups: one for all the days in which nobody ran, and then daily.
func TestMissedBackups(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.midnight(c)
	v.keeper.Stop()
	v.at(time.Date(2026, 2, 4, 15, 0, 0, 0, time.UTC))
	v.restart()
	v.mustBecome(c.ID, cluster.BackingUp)
	v.carryOut(c)
	v.mustList(c, "auto20260204", "auto20260201")
	v.midnight(c)
	v.mustList(c, "auto20260205", "auto20260204", "auto20260201")
}

// TestABackupAcrossMidnight: one that still runs at midnight isn't overtaken, and
// the new day gets its own right after.
func TestABackupAcrossMidnight(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.at(time.Date(2026, 2, 1, 1, 0, 0, 0, time.UTC))
	v.mustBecome(c.ID, cluster.BackingUp)
	v.at(time.Date(2026, 2, 2, 1, 0, 0, 0, time.UTC))
	v.mustList(c, "auto20260201")
	v.carryOut(c)
	await.True(v.t, "the next day's begins", func() bool { return len(v.labels(c)) == 2 })
	v.carryOut(c)
	v.mustList(c, "auto20260202", "auto20260201")
}

// TestADatabaseThatCantBeBackedUp waits until it can.
func TestADatabaseThatCantBeBackedUp(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.driver.Break(c.ID, "no disk")
	v.mustBecome(c.ID, cluster.Failed)
	v.at(time.Date(2026, 2, 1, 1, 0, 0, 0, time.UTC))
	v.mustList(c)
	v.driver.Mend(c.ID)
	v.mustBecome(c.ID, cluster.BackingUp)
}

// TestAFailedAutomaticBackup is taken again, an hour later.
func TestAFailedAutomaticBackup(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.driver.Inject(memplatform.Fault{Step: memplatform.StepBackup})
	v.at(time.Date(2026, 2, 1, 1, 0, 0, 0, time.UTC))
	v.mustBecome(c.ID, cluster.BackingUp)
	v.carryOut(c)
	v.pass(time.Hour)
	v.carryOut(c)
	failed := v.newest(c)
	if failed.State != backup.Failed {
		t.Fatalf("%+v", failed)
	}
	v.driver.Clear()
	v.pass(30 * time.Minute)
	v.mustList(c, "auto20260201")
	v.pass(31 * time.Minute)
	v.mustBecome(c.ID, cluster.BackingUp)
	v.carryOut(c)
	v.mustList(c, "auto20260201b", "auto20260201")
	if again := v.newest(c); again.ID == failed.ID || again.State != backup.Complete {
		t.Errorf("%+v", again)
	}
}

// TestTheScheduleIsMoved: what is due is judged by the time of the last backup, and
// no label stands in its way, whoever has it.
func TestTheScheduleIsMoved(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.midnight(c)
	v.snapshot(c, "auto20260201b")
	v.options.Schedule = backup.Schedule{Hour: 15}
	v.restart()
	v.mustList(c, "auto20260201b", "auto20260201")
	v.at(time.Date(2026, 2, 1, 15, 0, 0, 0, time.UTC))
	v.mustBecome(c.ID, cluster.BackingUp)
	v.carryOut(c)
	v.mustList(c, "auto20260201c", "auto20260201b", "auto20260201")
	v.at(time.Date(2026, 2, 2, 14, 59, 59, 0, time.UTC))
	v.mustList(c, "auto20260201c", "auto20260201b", "auto20260201")
	v.pass(time.Second)
	v.mustBecome(c.ID, cluster.BackingUp)
	v.carryOut(c)
	v.mustList(c, "auto20260202", "auto20260201c", "auto20260201b", "auto20260201")
}

// TestADeletedAutomaticBackupStaysDeleted: the day has had its backup.
func TestADeletedAutomaticBackupStaysDeleted(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.midnight(c)
	if err := v.control.Backups.Delete(t.Context(), v.admin, c.Engine, c.ID, v.newest(c).ID); err != nil {
		t.Fatal(err)
	}
	v.carryOut(c)
	v.mustList(c)
	if v.archive.Len() != 0 {
		t.Error("it is still in the archive")
	}
}

// TestRetention: seven daily ones, or as many as the operator wants; snapshots stay.
func TestRetention(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{0, 2} {
		t.Run(fmt.Sprint(keep), func(t *testing.T) {
			t.Parallel()
			v := newBackupBench(t, converge.BackupOptions{Keep: keep})
			c := v.active()
			v.snapshot(c, "mine")
			for range 9 {
				v.midnight(c)
			}
			want := 7
			if keep > 0 {
				want = keep
			}
			await.True(v.t, "older ones are gone from list and archive", func() bool {
				return len(v.labels(c)) == want+1 && v.archive.Len() == want+1
			})
			labels := v.labels(c)
			if labels[0] != "auto20260209" || labels[want] != "mine" || labels[want-1] != fmt.Sprintf("auto202602%02d", 10-want) {
				t.Errorf("%v", labels)
			}
		})
	}
}

// TestRetentionGoesOnAfterAFault: at the archive, before and after it has done its part.
func TestRetentionGoesOnAfterAFault(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		v := newBackupBench(t, converge.BackupOptions{Keep: 1})
		c := v.active()
		v.midnight(c)
		v.archive.Inject(archivetest.Fault{Call: "Delete", After: after, Times: 2})
		v.midnight(c)
		await.True(v.t, "the older one is gone", func() bool {
			all, err := v.store.BackupsForWork(t.Context())
			return err == nil && len(all[c.ID]) == 1 && v.archive.Len() == 1
		})
		v.mustList(c, "auto20260202")
	}
}

// TestArchiveOrphans: what no row tells of goes after a day; what is of a database
// that the store doesn't know stays.
func TestArchiveOrphans(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	kept := v.snapshot(c, "mine")
	const orphan, fresh, foreign = 1001, 1002, 77
	v.archive.Leave(c.ID, orphan, v.now().Add(-25*time.Hour))
	v.archive.Leave(c.ID, fresh, v.now().Add(-time.Hour))
	v.archive.Leave(foreign, orphan, v.now().Add(-25*time.Hour))
	await.True(v.t, "the orphan is gone", func() bool { return !v.archive.Has(c.ID, orphan) })
	v.quiet()
	if !v.archive.Has(c.ID, fresh) || !v.archive.Has(foreign, orphan) || !v.archive.Has(c.ID, kept.ID) {
		t.Error("too much was removed")
	}
}

// TestBackupsOfADeletedDatabase are kept for as long as the operator wants, and
// the rest of what is known of it with them.
func TestBackupsOfADeletedDatabase(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{KeepDeleted: 48 * time.Hour})
	c := v.active()
	v.snapshot(c, "mine")
	if err := v.control.Clusters.Delete(t.Context(), v.admin, c.Engine, c.ID, false); err != nil {
		t.Fatal(err)
	}
	v.carryOut(c)
	v.pass(47 * time.Hour)
	v.quiet()
	if v.archive.Len() != 1 {
		t.Fatal("its backup went with it")
	}
	v.undelete(c)
	v.archive.Inject(archivetest.Fault{Call: "DeleteCluster", Times: 1})
	v.pass(2 * time.Hour)
	await.True(v.t, "all of it is gone", func() bool {
		_, err := v.store.ClusterForWork(t.Context(), c.ID)
		return fault.IsKind(err, fault.NotFound) && v.archive.Len() == 0
	})
}

// TestTheLastBackupOfADeletedDatabase is kept until its time is over, or its owner gives it up.
func TestTheLastBackupOfADeletedDatabase(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	v.snapshot(c, "mine")
	if err := v.control.Clusters.Delete(t.Context(), v.admin, c.Engine, c.ID, false); err != nil {
		t.Fatal(err)
	}
	listed, err := v.store.ClusterForWork(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	// As the end of a delete with a last backup leaves it.
	err = v.store.InTx(t.Context(), func(tx *store.Tx) error {
		if err := tx.FailOtherOperations(t.Context(), c.ID, 0, "done"); err != nil {
			return err
		}
		return tx.SetFinalUntil(t.Context(), c.ID, v.now().Add(48*time.Hour))
	})
	if err != nil {
		t.Fatal(err)
	}
	v.pass(47 * time.Hour)
	if err := v.keeper.DropDeleted(t.Context(), listed); err != nil { // a round that listed it before that end
		t.Fatal(err)
	}
	v.quiet()
	if v.archive.Len() != 1 {
		t.Fatal("its last backup is gone too early")
	}
	v.pass(2 * time.Hour)
	await.True(v.t, "all of it is gone", func() bool {
		_, err := v.store.ClusterForWork(t.Context(), c.ID)
		return fault.IsKind(err, fault.NotFound) && v.archive.Len() == 0
	})
}

// undelete brings a deleted database back to its backup, and deletes it again.
func (v *backupBench) undelete(c cluster.Cluster) {
	v.t.Helper()
	undelete := func() error {
		return v.store.InTx(v.t.Context(), func(tx *store.Tx) error { return tx.Undelete(v.t.Context(), c.ID) })
	}
	err := v.store.InTx(v.t.Context(), func(tx *store.Tx) error { // whatever the quotas
		a, err := tx.HoldAccount(v.t.Context(), c.Account)
		a.Quotas.Databases = new(0)
		return errors.Join(err, tx.UpdateAccount(v.t.Context(), a))
	})
	if err := errors.Join(err, undelete()); err != nil {
		v.t.Fatal(err)
	}
	if err := undelete(); !errors.Is(err, store.ErrStale) {
		v.t.Errorf("twice: %v", err)
	}
	v.quiet()
	if now := v.view(c.ID); now.Status != cluster.Failed {
		v.t.Errorf("it is %s", now.Status)
	}
	v.keeper.Stop() // the days that went by would have their backup taken
	if err := v.control.Backups.Restore(v.t.Context(), v.admin, c.Engine, c.ID, v.newest(c).ID); err != nil {
		v.t.Fatal(err)
	}
	v.carryOut(c)
	v.mustBecome(c.ID, cluster.Active)
	v.mustServe(c.ID)
	if err := v.control.Clusters.Delete(v.t.Context(), v.admin, c.Engine, c.ID, false); err != nil {
		v.t.Fatal(err)
	}
	v.carryOut(c)
	v.pass(47 * time.Hour)
	v.restart()
}

func TestBackupsAreTriedOut(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{Verify: true})
	c := v.active()
	first := v.snapshot(c, "good")
	await.True(v.t, "it is verified", func() bool { return v.newest(c).Verified != nil })
	if b := v.newest(c); b.Problem != "" || len(v.events(c.ID)) != 1 || !strings.Contains(v.events(c.ID)[0].Message, "restores") {
		t.Errorf("%+v, %+v", b, v.events(c.ID))
	}
	v.driver.Inject(memplatform.Fault{Step: memplatform.StepVerify, Times: 1})
	bad := v.snapshot(c, "bad")
	await.True(v.t, "it is found bad", func() bool { return v.newest(c).Problem != "" })
	if b := v.newest(c); b.ID != bad.ID || b.Verified != nil || b.State != backup.Complete {
		t.Errorf("%+v", b)
	}
	v.mustHaveEvents(c.ID, operation.Backup, operation.Backup, operation.BackupVerify)
	if o := v.events(c.ID)[2]; o.Status != operation.Notification || !strings.Contains(o.Message, "bad") {
		t.Errorf("%+v", o)
	}
	if b, err := v.store.BackupForWork(t.Context(), first.ID); err != nil || b.Verified == nil {
		t.Errorf("%+v, %v", b, err)
	}
}

// TestABadBackupIsToldInOurOwnWords: what a try found names files, processes and
// accounts. It is the operator's; the event, the issue, its ticket and the mails
// have none of it.
func TestABadBackupIsToldInOurOwnWords(t *testing.T) {
	t.Parallel()
	const inner = "pg_restore: connect as steward to /srv/scratch/socket: pid 4711"
	v := newBackupBench(t, converge.BackupOptions{Verify: true})
	c := v.active()
	contact := monitor.Contact{Account: c.Account, Name: "ann", Email: "ann@example.org"}
	if _, err := v.store.CreateContact(t.Context(), contact); err != nil {
		t.Fatal(err)
	}
	v.driver.Inject(memplatform.Fault{Step: memplatform.StepVerify, Err: errors.New(inner), Times: 1})
	v.snapshot(c, "bad")
	await.True(v.t, "it is found bad", func() bool { return v.newest(c).Problem != "" })
	if found := v.newest(c).Problem; !strings.Contains(found, inner) {
		t.Errorf("the operator is told %q", found)
	}
	var shown []string
	for _, o := range v.events(c.ID) {
		shown = append(shown, o.Message)
	}
	issues, _, err := v.control.Issues.List(t.Context(), v.admin, store.ListQuery{})
	if err != nil || len(issues) != 1 {
		t.Fatalf("issues: %+v, %v", issues, err)
	}
	replies, _, err := v.control.Tickets.Replies(t.Context(), v.admin, issues[0].Ticket.ID, store.ListQuery{})
	if err != nil || len(replies) == 0 {
		t.Fatalf("timeline: %+v, %v", replies, err)
	}
	for _, r := range replies {
		shown = append(shown, r.Text)
	}
	mails, err := v.store.Notices(t.Context(), store.NoticeQuery{Issue: issues[0].ID})
	if err != nil || len(mails) != 1 {
		t.Fatalf("mails: %+v, %v", mails, err)
	}
	letter := mails[0].Letter()
	shown = append(shown, issues[0].Ticket.Summary, letter.Subject, letter.Text())
	for _, text := range shown {
		for _, word := range []string{"pg_restore", "connect", "steward", "/srv", "pid", "4711"} {
			if strings.Contains(text, word) {
				t.Errorf("customers are shown %q: %s", word, text)
			}
		}
	}
}

// TestAVerificationThatTakesTooLong says nothing of the backup, and is made again
// after ever longer pauses, also by a server that has just started.
func TestAVerificationThatTakesTooLong(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{Verify: true, Verification: converge.VerifyLimits{Base: 3 * time.Second}})
	c := v.active()
	for _, fault := range []memplatform.Fault{
		{Step: memplatform.StepVerify, Delay: time.Hour, Times: 1}, {Step: memplatform.StepVerify, Err: platform.ErrUnverified, Times: 1},
	} {
		v.driver.Inject(fault)
	}
	v.snapshot(c, "s")
	for i, pause := range []time.Duration{time.Hour, 2 * time.Hour} {
		tries := i + 1
		await.True(v.t, "it is given up", func() bool { return v.newest(c).VerifyTries == tries })
		if b := v.newest(c); b.State != backup.Complete || b.Verified != nil || b.Problem != "" || b.VerifyAfter == nil || !b.VerifyAfter.Equal(v.now().Add(pause)) {
			t.Errorf("%+v", b)
		}
		v.restart()
		v.quiet()
		if b := v.newest(c); b.VerifyTries != tries || b.Verified != nil {
			t.Errorf("verified again too soon: %+v", b)
		}
		v.pass(pause)
	}
	await.True(v.t, "it is verified", func() bool { return v.newest(c).Verified != nil })
	v.mustHaveEvents(c.ID, operation.Backup)
	v.mustHaveNoIssues()
}

// TestADatabaseIsDeletedWhileItsBackupIsVerified: there is nobody left to tell that
// it doesn't restore.
func TestADatabaseIsDeletedWhileItsBackupIsVerified(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{Verify: true, KeepDeleted: 48 * time.Hour})
	c := v.active()
	deleted := make(chan error, 1)
	v.driver.Inject(memplatform.Fault{Step: memplatform.StepVerify, Err: memplatform.ErrInjected, Times: 1, Do: func() {
		deleted <- v.control.Clusters.Delete(context.Background(), v.admin, c.Engine, c.ID, false)
	}})
	v.snapshot(c, "s")
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	v.carryOut(c)
	v.quiet()
	if b := v.newest(c); b.Problem != "" {
		t.Errorf("%+v", b)
	}
	v.mustHaveEvents(c.ID, operation.Backup, operation.Delete)
	v.mustHaveNoIssues()
}

func (v *backupBench) mustHaveNoIssues() {
	v.t.Helper()
	if issues, _, err := v.control.Issues.List(v.t.Context(), v.admin, store.ListQuery{}); err != nil || len(issues) > 0 {
		v.t.Errorf("issues: %+v, %v", issues, err)
	}
}

// TestATryThatCouldntBeMade says nothing of the backup, and is made again.
func TestATryThatCouldntBeMade(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{Verify: true})
	c := v.active()
	v.archive.Inject(archivetest.Fault{Call: "Get", Times: 1})
	v.snapshot(c, "s")
	v.quiet()
	if b := v.newest(c); b.Verified != nil || b.Problem != "" {
		t.Errorf("%+v", b)
	}
	v.pass(time.Hour + time.Second)
	await.True(v.t, "it is verified", func() bool { return v.newest(c).Verified != nil })
}

func TestADamagedBackupIsFound(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	b := v.snapshot(c, "s")
	v.archive.Damage(c.ID, b.ID)
	v.options.Verify = true
	v.restart()
	await.True(v.t, "it is found", func() bool { return v.newest(c).Problem != "" })
}

// TestAVerificationAges: what was verified once may have rotted since.
func TestAVerificationAges(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{Verify: true})
	c := v.active()
	b := v.snapshot(c, "s")
	await.True(v.t, "it is verified", func() bool { return v.newest(c).Verified != nil })
	v.archive.Damage(c.ID, b.ID)
	v.pass(6 * 24 * time.Hour)
	v.quiet()
	if found, err := v.store.BackupForWork(t.Context(), b.ID); err != nil || found.Problem != "" {
		t.Errorf("tried out again too soon: %+v, %v", found, err)
	}
	v.pass(2 * 24 * time.Hour)
	await.True(v.t, "it is found", func() bool {
		found, err := v.store.BackupForWork(t.Context(), b.ID)
		return err == nil && found.Problem != ""
	})
}

// TestADatabaseIsLookedAfterWhileItIsBackedUp: its status stays, and tells
// afterwards.
func TestADatabaseIsLookedAfterWhileItIsBackedUp(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.active()
	if err := v.control.Backups.Create(t.Context(), v.admin, c.Engine, c.ID, control.NewSnapshot{Label: "s"}, nil); err != nil {
		t.Fatal(err)
	}
	v.world.Edit(c.ID, func(c *memplatform.Cluster) { c.Running = false })
	await.True(v.t, "its server is started again", func() bool {
		real, _ := v.world.Cluster(c.ID)
		return real.Running
	})
	v.driver.Break(c.ID, "no disk")
	v.lookedAgain(c.ID)
	if now := v.view(c.ID); now.Status != cluster.BackingUp {
		t.Errorf("it is %s", now.Status)
	}
	v.driver.Mend(c.ID)
	v.carryOut(c)
	v.mustBecome(c.ID, cluster.Active)
	v.mustHaveEvents(c.ID, operation.Backup)
}

// lockedOut is a database that a restore has locked its owner out of.
func (v *backupBench) lockedOut() cluster.Cluster {
	v.t.Helper()
	c := v.active()
	b := v.snapshot(c, "s")
	v.pass(time.Second)
	if err := v.control.Clusters.ResetCredentials(v.t.Context(), v.admin, c.Engine, c.ID); err != nil {
		v.t.Fatal(err)
	}
	v.carryOut(c)
	if err := v.control.Backups.Restore(v.t.Context(), v.admin, c.Engine, c.ID, b.ID); err != nil {
		v.t.Fatal(err)
	}
	v.carryOut(c)
	return c
}

// readmit is the operator's word.
func (v *backupBench) readmit(c cluster.Cluster) {
	v.t.Helper()
	if err := v.store.InTx(v.t.Context(), func(tx *store.Tx) error { return tx.SetLockedOut(v.t.Context(), c.ID, false) }); err != nil {
		v.t.Fatal(err)
	}
}

// mustNotLetInEarly demands, whenever the gateway or the password is about to be
// changed, that nobody gets in with a password that isn't the one that is shown.
func (v *backupBench) mustNotLetInEarly(c cluster.Cluster) {
	look := func() {
		real, _ := v.world.Cluster(c.ID)
		if v.world.Login(c.ID, client, real.Password) != nil {
			return
		}
		if shown, err := v.store.Secret(context.Background(), c.ID, platform.RootPassword); err != nil || string(shown) != real.Password {
			v.t.Error("people are let in before today's password is set")
		}
	}
	for _, step := range []memplatform.Step{memplatform.StepRoute, memplatform.StepPassword} {
		v.driver.Inject(memplatform.Fault{Step: step, Do: look})
	}
}

// TestLetInWhileTheServerIsDown: the operator's word doesn't open the gateway before
// the server runs and has today's password.
func TestLetInWhileTheServerIsDown(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.lockedOut()
	v.driver.Inject(memplatform.Fault{Step: memplatform.StepStart})
	v.world.Edit(c.ID, func(c *memplatform.Cluster) { c.Running = false })
	v.readmit(c)
	looks := v.driver.Looks(c.ID)
	await.True(v.t, "it was looked at in vain", func() bool { return v.driver.Looks(c.ID) > looks+4 })
	v.driver.Clear()
	v.mustNotLetInEarly(c)
	v.mustBecome(c.ID, cluster.Active)
	credentials, err := v.control.Clusters.Credentials(t.Context(), v.admin, c.Engine, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.world.Login(c.ID, client, credentials.Password); err != nil {
		t.Errorf("it is called active, and today's password lets nobody in: %v", err)
	}
}

// TestLockedOut: a database that a restore has locked its owner out of stays
// failed until the operator lets today's password be set.
func TestLockedOut(t *testing.T) {
	t.Parallel()
	v := newBackupBench(t, converge.BackupOptions{})
	c := v.lockedOut()
	v.lookedAgain(c.ID)
	if now := v.view(c.ID); now.Status != cluster.Failed || !now.LockedOut {
		t.Fatalf("%+v", now)
	}
	if real, _ := v.world.Cluster(c.ID); v.world.Login(c.ID, client, real.Password) == nil {
		t.Error("the password that was reset lets people in")
	}
	v.driver.Inject(memplatform.Fault{Step: memplatform.StepPassword, Times: 2})
	v.mustNotLetInEarly(c)
	v.readmit(c)
	c = v.mustBecome(c.ID, cluster.Active)
	credentials, err := v.control.Clusters.Credentials(t.Context(), v.admin, c.Engine, c.ID)
	if err != nil || v.world.Login(c.ID, client, credentials.Password) != nil {
		t.Errorf("%v, %v", err, v.world.Login(c.ID, client, credentials.Password))
	}
}
