package operate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/archive"
	"steward/internal/archive/archivetest"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/platform/memplatform"
	"steward/internal/store"
)

// hold makes a database's tables hold data.
func (b *bench) hold(c cluster.Cluster, data string) {
	b.world.Edit(c.ID, func(c *memplatform.Cluster) { c.Data = data })
}

// mustHold demands that they do.
func (b *bench) mustHold(c cluster.Cluster, data string) {
	b.t.Helper()
	if real, _ := b.world.Cluster(c.ID); real.Data != data {
		b.t.Errorf("the database holds %q, want %q", real.Data, data)
	}
}

func (b *bench) backups(c cluster.Cluster) []backup.Backup {
	b.t.Helper()
	all, err := b.store.BackupsOf(b.t.Context(), c.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// snapshot begins one; keep takes it to its end.
func (b *bench) snapshot(c cluster.Cluster, label string) {
	b.t.Helper()
	if err := b.control.Backups.Create(b.t.Context(), b.admin, c.Engine, c.ID, control.NewSnapshot{Label: label}, nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) keep(c cluster.Cluster, label string) backup.Backup {
	b.t.Helper()
	b.snapshot(c, label)
	if o := b.runToEnd(); o.Status != operation.Finished {
		b.t.Fatalf("%+v", o)
	}
	return b.backups(c)[0]
}

func (b *bench) restore(c cluster.Cluster, kept backup.Backup) {
	b.t.Helper()
	if err := b.control.Backups.Restore(b.t.Context(), b.admin, c.Engine, c.ID, kept.ID); err != nil {
		b.t.Fatal(err)
	}
	if now := b.view(c.ID); now.Status != cluster.Restoring {
		b.t.Fatalf("asked to be restored, it is %s", now.Status)
	}
}

func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	b.snapshot(c, "first")
	if now := b.view(c.ID); now.Status != cluster.BackingUp {
		t.Fatalf("asked for a snapshot, it is %s", now.Status)
	}
	if o := b.runToEnd(); o.Status != operation.Finished || o.Percent != 100 || o.Message != "" {
		t.Errorf("%+v", o)
	}
	kept := b.backups(c)[0]
	if kept.State != backup.Complete || kept.Bytes == 0 || kept.StoredBytes == 0 || kept.Installation != c.Installation || kept.Finished == nil {
		t.Errorf("%+v", kept)
	}
	b.mustServe(c.ID)
	b.hold(c, "two")
	b.restore(c, kept)
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustHold(c, "one")
	b.mustServe(c.ID)
}

// TestWhatIsRestoredIsntRestoredAgain: from when it serves, customers write to it.
func TestWhatIsRestoredIsntRestoredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "first")
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepObserve, Times: 2})
	b.restore(c, kept)
	if again, err := b.operator.Run(t.Context(), b.last); err != nil || again == 0 {
		t.Fatalf("the first run: again %v, %v", again, err)
	}
	b.hold(c, "written since")
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustHold(c, "written since")
}

// TestARestoreBringsAFailedDatabaseBack: that is what backups are for.
func TestARestoreBringsAFailedDatabaseBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "first")
	if err := b.driver.Remove(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'failed' WHERE id = $1", c.ID); err != nil {
		t.Fatal(err)
	}
	b.restore(c, kept)
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustHold(c, "one")
	b.mustServe(c.ID)
}

// backupFaults are everything that can go wrong on the way into the archive.
func backupFaults(b *bench, after bool) map[string]func() {
	faults := map[string]func(){
		"Put": func() { b.archive.Inject(archivetest.Fault{Call: "Put", After: after, Times: 1}) },
	}
	for _, step := range []memplatform.Step{memplatform.StepBackup, memplatform.StepCopy, memplatform.StepObserve} {
		faults[string(step)] = func() { b.driver.Inject(memplatform.Fault{Step: step, After: after, Times: 1}) }
	}
	return faults
}

// restoreFaults are everything that can go wrong on the way out of it.
func restoreFaults(b *bench, after bool) map[string]func() {
	faults := map[string]func(){}
	for _, call := range []string{"Verify", "Get"} {
		faults[call] = func() { b.archive.Inject(archivetest.Fault{Call: call, After: after, Times: 1}) }
	}
	for _, step := range []memplatform.Step{memplatform.StepCopy, memplatform.StepSwap, memplatform.StepStart, memplatform.StepRoute} {
		faults[string(step)] = func() { b.driver.Inject(memplatform.Fault{Step: step, After: after, Times: 1}) }
	}
	return faults
}

// TestBackupsGoOnAfterAFault: before and after every step, with the same process
// and with a new one, the same comes of it as without.
func TestBackupsGoOnAfterAFault(t *testing.T) {
	t.Parallel()
	backupsGoOnAfter(t, failures)
}

func TestBackupsGoOnAfterAFaultThorough(t *testing.T) {
	t.Parallel()
	backupsGoOnAfter(t, otherFailures)
}

func backupsGoOnAfter(t *testing.T, failures []failure) {
	t.Helper()
	b := newBench(t, quick)
	for _, f := range failures {
		for name := range backupFaults(b, f.after) {
			what := fmt.Sprintf("%s after=%v restarted=%v", name, f.after, f.death)
			c := b.active()
			b.hold(c, what)
			b.snapshot(c, "s")
			b.failOnce(backupFaults(b, f.after)[name], f.death)
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%s: %+v", what, o)
			}
			b.mustServe(c.ID)
			kept := b.backups(c)
			if len(kept) != 1 || kept[0].State != backup.Complete {
				t.Fatalf("%s: %+v", what, kept)
			}
			b.hold(c, "lost")
			b.restore(c, kept[0])
			b.runToEnd()
			b.mustHold(c, what)
		}
		for name := range restoreFaults(b, f.after) {
			what := fmt.Sprintf("%s after=%v restarted=%v", name, f.after, f.death)
			c := b.active()
			b.hold(c, what)
			kept := b.keep(c, "s")
			b.hold(c, "lost")
			b.restore(c, kept)
			b.failOnce(restoreFaults(b, f.after)[name], f.death)
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%s: %+v", what, o)
			}
			b.mustServe(c.ID)
			b.mustHold(c, what)
			if real, _ := b.world.Cluster(c.ID); real.Aside == nil || real.Aside.Data != "lost" {
				t.Errorf("%s: set aside is %+v", what, real.Aside)
			}
		}
	}
}

// failOnce runs the last operation once with a fault.
func (b *bench) failOnce(inject func(), restarted bool) {
	b.t.Helper()
	inject()
	if _, err := b.operator.Run(b.t.Context(), b.last); err != nil {
		b.t.Fatal(err)
	}
	if restarted {
		b.restart()
	}
}

// TestAKilledBackupBeginsAnew: what runs when steward dies isn't restorable, and
// the next run makes it whole.
func TestAKilledBackupBeginsAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	b.snapshot(c, "s")
	ctx, die := context.WithCancel(t.Context())
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, Times: 1, Do: die})
	if _, err := b.operator.Run(ctx, b.last); err == nil {
		t.Fatal("the run didn't die")
	}
	kept := b.backups(c)[0]
	if kept.State != backup.Running {
		t.Errorf("%+v", kept)
	}
	if err := b.control.Backups.Restore(t.Context(), b.admin, c.Engine, c.ID, kept.ID); !fault.IsKind(err, fault.Precondition) {
		t.Errorf("half a backup was restored: %v", err)
	}
	b.restart()
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	if kept := b.backups(c); len(kept) != 1 || kept[0].State != backup.Complete {
		t.Errorf("%+v", kept)
	}
	b.mustServe(c.ID)
}

// TestABackupIsGivenUp: the database is active again, the backup is listed as
// failed, and nothing of it is in the archive.
func TestABackupIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.active()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy})
	b.snapshot(c, "s")
	o := b.runToEnd()
	if o.Status != operation.FailedStatus || o.Message == "" {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
	if kept := b.backups(c)[0]; kept.State != backup.Failed || kept.Problem != o.Message || kept.Finished == nil {
		t.Errorf("%+v", kept)
	}
	if b.archive.Len() != 0 {
		t.Error("something is left in the archive")
	}
}

// TestWhatCopiesFailOfIsTheOperators: neither the events of backups, restores and
// forks nor the list of backups repeats what servers, the host and the bucket say.
func TestWhatCopiesFailOfIsTheOperators(t *testing.T) {
	t.Parallel()
	calls := []string{"Put", "Verify", "Get"}
	for _, step := range []memplatform.Step{memplatform.StepBackup, memplatform.StepCopy, memplatform.StepSwap, memplatform.StepStart, memplatform.StepRoute} {
		calls = append(calls, string(step))
	}
	for name, begin := range map[string]func(b *bench, c cluster.Cluster, kept backup.Backup){
		"backup":  func(b *bench, c cluster.Cluster, _ backup.Backup) { b.snapshot(c, "t") },
		"restore": func(b *bench, c cluster.Cluster, kept backup.Backup) { b.restore(c, kept) },
		"fork":    func(b *bench, c cluster.Cluster, _ backup.Backup) { b.fork(c, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			struck := 0
			for _, call := range calls {
				b := newBench(t, hopeless)
				c := b.active()
				kept := b.keep(c, "s")
				fault := errors.New(inner)
				b.archive.Inject(archivetest.Fault{Call: call, Err: fault})
				b.driver.Inject(memplatform.Fault{Step: memplatform.Step(call), Err: fault})
				begin(b, c, kept)
				o := b.runToEnd()
				b.mustShowNothingInner(o.Message)
				for _, k := range b.backups(c) {
					b.mustShowNothingInner(k.Problem)
				}
				if o.Status == operation.FailedStatus {
					struck++
				}
			}
			if struck < 2 {
				t.Errorf("only %d of the faults struck", struck)
			}
		})
	}
}

// TestABucketThatFails: people are told that it is the bucket, and a backup for
// which there is no room isn't copied over and over.
func TestABucketThatFails(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"no room": errors.Join(archive.ErrBucket, archive.ErrFull), "couldn't be reached": archive.ErrBucket} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limits := hopeless
			if name == "no room" {
				limits = operate.Limits{}
			}
			b := newBench(t, limits)
			c := b.active()
			b.archive.Inject(archivetest.Fault{Call: "Put", Err: err})
			b.snapshot(c, "s")
			o := b.runToEnd()
			if o.Status != operation.FailedStatus || !strings.Contains(o.Message, name) || name == "no room" && o.Attempt != 1 {
				t.Errorf("%+v", o)
			}
			if kept := b.backups(c)[0]; kept.State != backup.Failed || kept.Problem != o.Message {
				t.Errorf("%+v", kept)
			}
			b.mustServe(c.ID)
		})
	}
}

// TestTheDatabaseCanBeLookedAfterMeanwhile: a backup doesn't hold its lease.
func TestTheDatabaseCanBeLookedAfterMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.snapshot(c, "s")
	leased := false
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, Times: 1, Do: func() {
		_, release, ok, err := b.store.Lease(t.Context(), c.ID)
		if leased = ok && err == nil; leased {
			release()
		}
		if again, err := b.operator.Run(t.Context(), b.last); again != 0 || err != nil {
			t.Errorf("a second run: %v, %v", again, err)
		}
	}})
	b.runToEnd()
	if !leased {
		t.Error("the lease wasn't to be had")
	}
}

// TestProgress: reported while it goes on, and pushing the sweep's look away.
func TestProgress(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{Report: time.Millisecond})
	c := b.active()
	b.hold(c, strings.Repeat("x", 8<<10))
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET used_bytes = 16384 WHERE id = $1", c.ID); err != nil {
		t.Fatal(err)
	}
	b.snapshot(c, "s")
	var percent []int
	look := func() {
		o := b.event(b.last)
		if len(percent) > 0 { // the next report comes when the machine has time for it
			for deadline := time.Now().Add(30 * time.Second); o.Percent <= percent[len(percent)-1] && time.Now().Before(deadline); o = b.event(b.last) {
				time.Sleep(5 * time.Millisecond)
			}
		}
		percent = append(percent, o.Percent)
		if due, err := b.store.DueOperations(t.Context(), 50); err != nil || len(due) > 0 {
			t.Errorf("due: %v, %v", due, err)
		}
	}
	for range 4 {
		b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, Times: 1, Do: look})
	}
	b.runToEnd()
	if len(percent) != 4 || percent[0] != 0 || percent[1] == 0 || percent[2] <= percent[1] || percent[3] <= percent[2] || percent[3] > 99 {
		t.Errorf("%v", percent)
	}
}

// TestTurns: no more than so many backups at once, and the others wait without
// being forgotten.
func TestTurns(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{AtOnce: 1})
	first, second := b.active(), b.active()
	b.snapshot(second, "s")
	waits := b.last
	b.snapshot(first, "s")
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, Times: 1, Do: func() {
		again, err := b.operator.Run(t.Context(), waits)
		if again == 0 || err != nil || b.event(waits).Status != operation.Scheduled {
			t.Errorf("again %v, %v, %+v", again, err, b.event(waits))
		}
	}})
	b.runToEnd()
	b.last = waits
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
}

// TestABackupThatIsBlocked isn't tried again, and its owner is told why.
func TestABackupThatIsBlocked(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepBackup, Times: 1, Err: platform.ErrBlocked})
	b.snapshot(c, "s")
	if o := b.runToEnd(); o.Status != operation.FailedStatus || o.Message != operate.BlockedReason {
		t.Errorf("%+v", o)
	}
	if made := b.backups(c)[0]; made.State != backup.Failed || made.Problem != operate.BlockedReason {
		t.Errorf("%+v", made)
	}
}

func TestDeleteABackup(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	c := b.active()
	for _, after := range []bool{false, true} {
		kept := b.keep(c, "s")
		if err := b.control.Backups.Delete(t.Context(), b.admin, c.Engine, c.ID, kept.ID); err != nil {
			t.Fatal(err)
		}
		b.archive.Inject(archivetest.Fault{Call: "Delete", After: after, Times: 1})
		if o := b.runToEnd(); o.Status != operation.Finished {
			t.Errorf("%+v", o)
		}
		if _, err := b.store.BackupForWork(t.Context(), kept.ID); !fault.IsKind(err, fault.NotFound) || b.archive.Has(c.ID, kept.ID) {
			t.Errorf("something is left: %v", err)
		}
	}
}

func TestDeleteWithBackups(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{0, time.Hour} {
		t.Run(keep.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, quick)
			b.change = func(o *operate.Options) { o.KeepDeleted = keep }
			b.restart()
			c := b.active()
			kept := b.keep(c, "s")
			if err := b.control.Clusters.Delete(t.Context(), b.admin, c.Engine, c.ID, false); err != nil {
				t.Fatal(err)
			}
			b.archive.Inject(archivetest.Fault{Call: "DeleteCluster", Times: 1})
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%+v", o)
			}
			if keep == 0 {
				b.mustBeGone(c)
				if b.archive.Len() != 0 {
					t.Error("its backup is left")
				}
				return
			}
			if _, there := b.world.Cluster(c.ID); there || !b.archive.Has(c.ID, kept.ID) {
				t.Errorf("there: %v, its backup: %v", there, b.archive.Has(c.ID, kept.ID))
			}
			if _, err := b.store.Secret(t.Context(), c.ID, platform.BackupKey); err != nil {
				t.Errorf("its key: %v", err)
			}
			if again := b.active(); again.ID == c.ID {
				t.Error("its id was given out again")
			}
		})
	}
}

// TestTheKeyIsMadeOnce: for the first backup, and all are read with it. One of an
// older steward that age can't read doesn't count.
func TestTheKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	for name, old := range map[string][]byte{"none": nil, "unreadable": make([]byte, 32)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, operate.Limits{})
			c := b.active()
			if old != nil {
				if err := b.store.SaveSecret(t.Context(), c.ID, platform.BackupKey, old); err != nil {
					t.Fatal(err)
				}
			}
			b.hold(c, "one")
			first := b.keep(c, "first")
			if key, err := b.store.Secret(t.Context(), c.ID, platform.BackupKey); err != nil || !archive.IsKey(key) {
				t.Errorf("its key: %v", err)
			}
			b.keep(c, "second")
			b.hold(c, "two")
			b.restore(c, first)
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%+v", o)
			}
			b.mustHold(c, "one")
		})
	}
}

// saver counts what is kept for a recovery.
type saver struct {
	saved int
	err   error
}

func (s *saver) Save(context.Context, cluster.ID) error {
	s.saved++
	return s.err
}

// TestABackupKeepsWhatRecovers: with each backup, which is one also when that fails.
func TestABackupKeepsWhatRecovers(t *testing.T) {
	t.Parallel()
	kept := &saver{}
	b := newBench(t, operate.Limits{})
	b.change = func(o *operate.Options) { o.Recovery = kept }
	b.restart()
	c := b.active()
	b.keep(c, "first")
	kept.err = archivetest.ErrInjected
	b.keep(c, "second")
	if kept.saved != 2 {
		t.Errorf("kept %d times, want 2", kept.saved)
	}
}

// TestRecovered: what another server had comes up with the password that was
// last known there, also when the backup is older.
func TestRecovered(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	b.hold(c, "one")
	kept := b.keep(c, "first")
	if err := b.control.Clusters.ResetCredentials(t.Context(), b.admin, c.Engine, c.ID); err != nil {
		t.Fatal(err)
	}
	b.runToEnd()
	b.restore(c, kept)
	o, err := b.store.OperationForWork(t.Context(), b.last)
	if err != nil {
		t.Fatal(err)
	}
	o.Params.Recovered = true
	if err := b.store.SaveParams(t.Context(), o.ID, o.Params); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.Finished {
		t.Errorf("%+v", o)
	}
	b.mustHold(c, "one")
	b.mustServe(c.ID)
}

// TestADamagedBackupCostsNothing: found before anything is touched.
func TestADamagedBackupCostsNothing(t *testing.T) {
	t.Parallel()
	for _, before := range []cluster.Status{cluster.Active, cluster.Degraded, cluster.Failed} {
		t.Run(string(before), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, operate.Limits{})
			c := b.active()
			kept := b.keep(c, "s")
			b.hold(c, "two")
			b.archive.Damage(c.ID, kept.ID)
			if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", before, c.ID); err != nil {
				t.Fatal(err)
			}
			b.restore(c, kept)
			o := b.runToEnd()
			if o.Status != operation.FailedStatus || !strings.Contains(o.Message, "damaged") || !strings.Contains(o.Message, "as it was") {
				t.Errorf("%+v", o)
			}
			want := before
			if want == cluster.Degraded { // upkeep tells
				want = cluster.Active
			}
			if now := b.view(c.ID); now.Status != want {
				t.Errorf("it is %s", now.Status)
			}
			b.mustHold(c, "two")
			if noted := b.backups(c)[0]; noted.Problem == "" {
				t.Errorf("nobody is told: %+v", noted)
			}
		})
	}
}

// TestARestoreIsGivenUp: failed only when the data may have been touched.
func TestARestoreIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]cluster.Status{"Get": cluster.Active, "swap": cluster.Failed, "start": cluster.Failed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, hopeless)
			c := b.active()
			kept := b.keep(c, "s")
			b.archive.Inject(archivetest.Fault{Call: name})
			b.driver.Inject(memplatform.Fault{Step: memplatform.Step(name)})
			b.restore(c, kept)
			o := b.runToEnd()
			if now := b.view(c.ID); o.Status != operation.FailedStatus || now.Status != want || strings.Contains(o.Message, "set aside") != (want == cluster.Failed) {
				t.Errorf("%s, %+v", now.Status, o)
			}
		})
	}
}

// resetPassword gives the database new credentials.
func (b *bench) resetPassword(c cluster.Cluster) {
	b.t.Helper()
	if err := b.control.Clusters.ResetCredentials(b.t.Context(), b.admin, c.Engine, c.ID); err != nil {
		b.t.Fatal(err)
	}
	b.runToEnd()
}

// TestARestoreOfAnOlderPassword: the database fails, as is documented, until a
// newer backup is restored; or it gets today's, where the operator wants that.
func TestARestoreOfAnOlderPassword(t *testing.T) {
	t.Parallel()
	for _, reapply := range []bool{false, true} {
		t.Run(fmt.Sprint(reapply), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, operate.Limits{})
			b.change = func(o *operate.Options) { o.Reapply = reapply }
			b.restart()
			c := b.active()
			b.hold(c, "one")
			older := b.keep(c, "older")
			b.resetPassword(c)
			newer := b.keep(c, "newer")
			b.hold(c, "two")
			b.restore(c, older)
			o := b.runToEnd()
			b.mustHold(c, "one")
			if reapply {
				if o.Status != operation.Finished {
					t.Errorf("%+v", o)
				}
				b.mustServe(c.ID)
				return
			}
			if now := b.view(c.ID); o.Status != operation.FailedStatus || o.Message != operate.LockedOutReason || now.Status != cluster.Failed || !now.LockedOut {
				t.Errorf("%+v, %+v", o, now)
			}
			if real, _ := b.world.Cluster(c.ID); b.world.Login(c.ID, client, real.Password) == nil {
				t.Error("the password that was reset lets people in")
			}
			b.restore(c, newer)
			if o := b.runToEnd(); o.Status != operation.Finished {
				t.Errorf("%+v", o)
			}
			if now := b.view(c.ID); now.LockedOut {
				t.Error("still locked out")
			}
			b.mustServe(c.ID)
		})
	}
}

// TestUndoARestore: with a fault before and after each step.
func TestUndoARestore(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick)
	for _, step := range []memplatform.Step{"", memplatform.StepStart, memplatform.StepPassword} {
		c := b.active()
		b.hold(c, "one")
		kept := b.keep(c, "s")
		b.hold(c, "two")
		b.resetPassword(c)
		b.restore(c, kept)
		b.runToEnd()
		b.mustHold(c, "one")
		err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
			now, err := tx.ClusterForWork(t.Context(), c.ID)
			if err != nil {
				return err
			}
			if _, err := tx.Transition(t.Context(), now, cluster.Restore); err != nil {
				return err
			}
			o, err := tx.CreateOperation(t.Context(), operation.Operation{
				Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: operation.RestoreUndo, Status: operation.Scheduled,
			})
			b.last = o.ID
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if step != "" {
			b.driver.Inject(memplatform.Fault{Step: step, Times: 1})
		}
		if o := b.runToEnd(); o.Status != operation.Finished {
			t.Errorf("%s: %+v", step, o)
		}
		b.mustHold(c, "two")
		b.mustServe(c.ID)
		if now := b.view(c.ID); now.LockedOut {
			t.Error("locked out")
		}
	}
}

// TestWhatTakesTooLongIsGivenUp: however well it goes on.
func TestWhatTakesTooLongIsGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, operate.Limits{})
	c := b.active()
	kept := b.keep(c, "s")
	b.change = func(o *operate.Options) { o.Limits.Long = 200 * time.Millisecond }
	b.restart()
	b.driver.Inject(memplatform.Fault{Step: memplatform.StepCopy, Delay: time.Hour})
	b.snapshot(c, "slow")
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, "longer") || o.Attempt != 1 {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
	b.restore(c, kept)
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, "longer") || !strings.Contains(o.Message, "as it was") {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
}

// TestABackupThatIsGone: dropped between the request to restore it and the work.
func TestABackupThatIsGone(t *testing.T) {
	t.Parallel()
	b := newBench(t, hopeless)
	c := b.active()
	kept := b.keep(c, "s")
	b.restore(c, kept)
	if err := b.store.InTx(t.Context(), func(tx *store.Tx) error { return tx.MarkDeleting(t.Context(), kept.ID) }); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.FailedStatus || !strings.Contains(o.Message, "gone") {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
	b.snapshot(c, "lost")
	if _, err := b.store.Pool().Exec(t.Context(), "DELETE FROM backups"); err != nil {
		t.Fatal(err)
	}
	if o := b.runToEnd(); o.Status != operation.FailedStatus {
		t.Errorf("%+v", o)
	}
	b.mustServe(c.ID)
}
