package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/migration"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/platform"
	"steward/internal/spell"
	"steward/internal/store"
	"steward/internal/wait"
)

// Platform is what is asked of where databases run: a platform.Driver.
type Platform interface {
	platform.Applier
	platform.Archiver
	platform.BackupKeeper
	platform.Upgrader
	platform.Importer
	Inside(ctx context.Context, id cluster.ID, work func(ctx context.Context, l platform.Logical) error) error
}

// Options are what an Operator is made of.
type Options struct {
	Store   *store.Store
	Driver  Platform
	Catalog *catalog.Catalog
	// Archive keeps backups.
	Archive Archive
	// Recovery keeps what brings databases back on another server.
	Recovery Recovery
	// Issues tells of the ends of maintenance windows.
	Issues outage.IssueTracker
	// Sources opens connections to where databases are brought over from.
	Sources platform.SourceDialer
	// KeepDeleted is how long the backups of deleted databases are kept.
	KeepDeleted time.Duration
	// KeepFinal is how long the last backup of a deleted database is kept for its owner.
	KeepFinal time.Duration
	// Reapply makes a restore end with today's root password, also where the
	// backup is from before it was reset.
	Reapply bool
	Logger  *slog.Logger
	// Limits that are left out get their defaults.
	Limits Limits
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Limits bound how long is tried what doesn't work.
type Limits struct {
	// Pass bounds one pass: 90 s unless set, below the job queue's own limit.
	Pass time.Duration
	// Quick is how long problems are tried again within a pass: 3 s unless set.
	Quick time.Duration
	// Copies is how long a restore waits for replicas to be given the data,
	// before it leaves them to upkeep: a minute unless set.
	Copies time.Duration
	// GiveUp is how long after its start an operation that goes on failing is
	// given up: 10 min unless set.
	GiveUp time.Duration
	// Configure is the same for other settings of the server, with which it may not
	// start: then those that were there come back. 1 min unless set.
	Configure time.Duration
	// Unserved is for how long a switchover is tried while nothing takes writes, with which upkeep deals from then on: 1 min unless set.
	Unserved time.Duration
	// Copying is the same for backups, restores and forks: GiveUp unless set.
	Copying time.Duration
	// Following is for how long a source is tried that is followed and can't be reached: 1 h unless set.
	Following time.Duration
	// Long bounds a pass that copies all of a database: 12 h unless set, below
	// the job queue's own limit.
	Long time.Duration
	// Archived is after how long what a server has written is archived: backup.ArchiveDelay unless set.
	Archived time.Duration
	// Seen is how long a patch that has nothing to do keeps its status, so that
	// whoever asked for it and looks sees that it was heard: 1 s unless set.
	Seen time.Duration
	// Report is the time between two reports of how far such a pass is: 1 s
	// unless set.
	Report time.Duration
	// AtOnce is how many backups, and as many restores, are carried out at the
	// same time; others wait for a slot. 4 unless set.
	AtOnce int
}

func (l Limits) withDefaults() Limits {
	for _, d := range []struct {
		limit *time.Duration
		value time.Duration
	}{{&l.Pass, 90 * time.Second}, {&l.Quick, 3 * time.Second}, {&l.Copies, time.Minute}, {&l.GiveUp, 10 * time.Minute}, {&l.Configure, time.Minute}, {&l.Unserved, time.Minute}, {&l.Long, 12 * time.Hour}, {&l.Following, time.Hour}, {&l.Report, time.Second}, {&l.Seen, time.Second}, {&l.Archived, backup.ArchiveDelay}} {
		if *d.limit == 0 {
			*d.limit = d.value
		}
	}
	if l.Copying == 0 {
		l.Copying = l.GiveUp
	}
	if l.AtOnce == 0 {
		l.AtOnce = 4
	}
	return l
}

// leastAttempts are made before time alone makes an operation be given up: the
// time may have passed while no server ran.
const leastAttempts = 3

// Operator carries operations out.
type Operator struct {
	Options
	backups, restores, imports, follows *slots
}

// New makes an Operator.
func New(o Options) *Operator {
	o.Limits = o.Limits.withDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Operator{Options: o, backups: newSlots(o.Limits.AtOnce), restores: newSlots(o.Limits.AtOnce), imports: newSlots(o.Limits.AtOnce), follows: newSlots(followsAtOnce)}
}

// Run takes one pass over an operation. Repeating it is harmless, also at the
// same time: only one run gets the lease. again is when to look next, 0 when
// nothing is left to do or somebody else is at it; the operation's own wake-up
// time says the same to the sweep, should this process die. An error is one of
// the store, or the end of ctx.
func (r *Operator) Run(ctx context.Context, id operation.ID) (again time.Duration, err error) {
	op, err := r.Store.OperationForWork(ctx, id)
	if fault.IsKind(err, fault.NotFound) || err == nil && op.Status.Done() {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read operation %d: %w", id, err)
	}
	leased, release, ok, err := r.lease(ctx, op)
	if err != nil || !ok {
		return 0, err
	}
	defer release()
	if due := r.archivedIn(op); due > 0 {
		return min(due, waitForSlot), r.putOff(leased, op, "It waits until all is archived that was written up to the moment.")
	}
	if slot := r.slotsOf(op); slot != nil {
		if !slot.take(op.Account) {
			return waitForSlot, r.putOff(leased, op, "It waits until others like it are done.")
		}
		defer slot.done(op.Account)
	}
	w, err := r.begin(leased, id)
	if err != nil || w == nil {
		return 0, err
	}
	return w.pass(leased)
}

// lease waits a moment for the lease: upkeep holds it now and then, briefly.
// Whoever holds it for longer is at work on an operation itself.
func (r *Operator) lease(ctx context.Context, op operation.Operation) (leased context.Context, release func(), ok bool, err error) {
	const patience = 2 * time.Second
	lease := r.Store.Lease
	if op.Action == operation.Backup || op.Action == operation.UpgradeCheck { // the database is looked after meanwhile
		lease = r.Store.LeaseBackup
	}
	if op.Action == operation.Migration {
		lease = r.Store.LeaseImport
	}
	pause := 5 * time.Millisecond
	for until := time.Now().Add(patience); ; {
		leased, release, ok, err = lease(ctx, op.Cluster)
		if err != nil || ok || time.Now().After(until) {
			return leased, release, ok, err
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return nil, nil, false, err
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// work is an operation being carried out, its cluster's lease held.
type work struct {
	*Operator
	op  operation.Operation
	c   cluster.Cluster
	log *slog.Logger
}

// begin reads everything anew under the lease; nil when there is nothing left to do.
func (r *Operator) begin(ctx context.Context, id operation.ID) (*work, error) {
	started, err := r.Store.StartOperation(ctx, id, store.WakeDelay)
	if err != nil || !started {
		return nil, err
	}
	op, err := r.Store.OperationForWork(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read operation %d: %w", id, err)
	}
	w := &work{Operator: r, op: op, log: r.Logger.With("operation_id", int64(id), "cluster_id", int64(op.Cluster), "action", string(op.Action))}
	w.c, err = r.Store.ClusterForWork(ctx, op.Cluster)
	if fault.IsKind(err, fault.NotFound) {
		return nil, w.gone(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read cluster %d: %w", op.Cluster, err)
	}
	return w, nil
}

// gone ends an operation whose cluster isn't there any more.
func (w *work) gone(ctx context.Context) error {
	if w.op.Action == operation.Migration && w.c.ID != 0 {
		if m, err := w.Store.MigrationForWork(ctx, w.op.Params.Migration); err == nil && !m.Status.Ended() {
			w.release(ctx, m)
		}
	}
	status, message := operation.FailedStatus, "The database was deleted."
	if w.op.Action == operation.Delete {
		status, message = operation.Finished, ""
	}
	return w.Store.InTx(ctx, func(tx *store.Tx) error {
		if w.op.Action == operation.Migration {
			if err := tx.FinishMigration(ctx, migration.Migration{ID: w.op.Params.Migration, Status: migration.Failed, Problem: message}); err != nil {
				return err
			}
		}
		return tx.FinishOperation(ctx, w.op.ID, status, message)
	})
}

// pass does what the operation asks for and deals with what came of it. ctx
// ends with the lease; what ends with it is neither success nor failure.
func (w *work) pass(ctx context.Context) (again time.Duration, err error) {
	limit := w.Limits.Pass
	if w.copies() {
		limit = w.Limits.Long
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	err = customerFault(w.do(limited))
	if err == nil {
		w.log.InfoContext(ctx, "operation done", "ms", time.Since(began).Milliseconds(), "attempt", w.op.Attempt)
		return 0, nil
	}
	if ctx.Err() != nil {
		return 0, fmt.Errorf("interrupted: %w", err)
	}
	if errors.Is(err, errFollows) {
		return goOnFollowing, w.putOff(ctx, w.op, "It follows its source.")
	}
	if impossible, ok := errors.AsType[*impossible](err); ok && !w.endless() {
		return w.giveUp(ctx, impossible.reason, err)
	}
	if limit == w.Limits.Long && limited.Err() != nil {
		return w.giveUp(ctx, fmt.Sprintf("It took longer than %s.", limit), err)
	}
	if w.exhausted() {
		return w.giveUp(ctx, w.whyGivenUp(err), err)
	}
	return w.retry(ctx, err)
}

// do dispatches by action.
func (w *work) do(ctx context.Context) error {
	if w.c.Deleted != nil && w.op.Action != operation.Delete {
		return w.gone(ctx)
	}
	switch w.op.Action {
	case operation.Create:
		if w.op.Params.Fork != 0 {
			return w.fork(ctx)
		}
		return w.apply(ctx)
	case operation.Update, operation.Resize, operation.Resume, operation.PoolCreate, operation.PoolUpdate, operation.PoolDelete:
		return w.apply(ctx)
	case operation.Patch, operation.Maintenance:
		return w.patch(ctx)
	case operation.Restart:
		return w.restart(ctx)
	case operation.Switchover:
		return w.switchOver(ctx)
	case operation.Upgrade:
		return w.upgrade(ctx)
	case operation.UpgradeCheck:
		return w.checkUpgrade(ctx)
	case operation.Suspend:
		return w.suspend(ctx)
	case operation.CredentialsReset:
		return w.reset(ctx)
	case operation.Delete:
		return w.remove(ctx)
	case operation.Backup:
		return w.backup(ctx)
	case operation.BackupDelete:
		return w.removeBackup(ctx)
	case operation.Restore:
		return w.restore(ctx)
	case operation.RestoreUndo:
		return w.undoRestore(ctx)
	case operation.Migration:
		return w.migrate(ctx)
	}
	return &impossible{reason: fmt.Sprintf("This version of the server doesn't know how to do a %s.", w.op.Action)}
}

// endless reports whether the operation is never given up: what a delete removes
// and a suspend stops must not stay for ever.
func (w *work) endless() bool {
	return w.op.Action == operation.Delete && (!w.op.Params.Final || w.op.Params.Touched) || w.op.Action == operation.BackupDelete || w.op.Action == operation.Suspend
}

// exhausted reports whether the operation has been tried for long enough.
func (w *work) exhausted() bool {
	return !w.endless() && !w.op.Params.Follows && w.op.Attempt >= leastAttempts &&
		w.op.Started != nil && w.Now().Sub(*w.op.Started) >= w.patience()
}

// patience is for how long the operation is tried.
func (w *work) patience() time.Duration {
	if w.copies() {
		return w.Limits.Copying
	}
	if w.op.Action == operation.Update && w.op.Params.ConfigChanged {
		return min(w.Limits.Configure, w.Limits.GiveUp)
	}
	return w.Limits.GiveUp
}

// copies reports whether the operation copies a database's data, which takes as long as
// there is of it.
func (w *work) copies() bool { return w.slotsOf(w.op) != nil || w.op.Params.Before != nil }

// sourceChanges is what keeps a database from being copied as of one moment.
const sourceChanges = "A table of the source was altered, made anew or emptied by TRUNCATE while it was copied; let that rest until the copy is made."

// whyGivenUp is for people: no addresses, and nothing that a server said.
func (w *work) whyGivenUp(err error) string {
	what := "It"
	if errors.Is(err, archive.ErrBucket) {
		what = "The place where backups are kept couldn't be reached or didn't do as it was asked: it"
	}
	if errors.Is(err, platform.ErrAway) {
		what = "The database's region couldn't be reached: it"
	}
	if errors.Is(err, platform.ErrSourceChanges) {
		return sourceChanges + fmt.Sprintf(" None of %d copies was whole.", w.op.Attempt)
	}
	if w.op.Action == operation.Update && w.op.Params.ConfigChanged {
		return "The servers couldn't be brought to these settings; those from before take their place again."
	}
	return fmt.Sprintf("%s went on failing for %s; the operator's log tells why.", what, spell.Duration(w.patience()))
}

// retry puts the operation off. Should this process die meanwhile, the sweep
// finds it by its wake-up time, which is a little later, lest both come.
func (w *work) retry(ctx context.Context, cause error) (again time.Duration, err error) {
	pause := backoff(w.op.Attempt)
	if errors.Is(cause, platform.ErrAway) {
		pause = min(pause, awayRetry)
	}
	w.log.WarnContext(ctx, "operation will be tried again", "attempt", w.op.Attempt, "in", pause, "error", cause)
	const percent = 10
	message := fmt.Sprintf("Attempt %d failed; it will be tried again.", w.op.Attempt)
	if blocked, ok := errors.AsType[*platform.CustomerError](cause); ok {
		message += " " + blocked.Reason
	}
	if errors.Is(cause, platform.ErrSourceChanges) {
		message += " " + sourceChanges
	}
	if err := w.Store.ProgressOperation(ctx, w.op.ID, percent, message, pause+store.WakeDelay); err != nil {
		return 0, fmt.Errorf("put operation %d off: %w", w.op.ID, err)
	}
	return pause, nil
}

// awayRetry is when to try again what waits for a region: that it is still away is known without asking it.
const awayRetry = 5 * time.Second

// backoff is the pause after the n-th attempt: one second, doubling to thirty.
func backoff(attempt int) time.Duration {
	const most = 30 * time.Second
	return min(time.Second<<min(max(attempt-1, 0), 10), most)
}

// impossible is a problem that trying again won't help with. Its reason is for
// customers, in our own words; the cause, for the log, is in anybody's.
type impossible struct {
	reason string
	cause  error
}

func (i *impossible) Error() string {
	if i.cause != nil {
		return i.reason + " " + i.cause.Error()
	}
	return i.reason
}

func (i *impossible) Unwrap() error { return i.cause }

// customerFault makes what only the customer can put right impossible, if it isn't yet.
func customerFault(err error) error {
	if _, ok := errors.AsType[*impossible](err); ok {
		return err
	}
	if h, ok := errors.AsType[*platform.CustomerError](err); ok {
		return &impossible{reason: h.Reason, cause: err}
	}
	return err
}

func isCustomerError(err error) bool {
	_, ok := errors.AsType[*platform.CustomerError](err)
	return ok
}

// step does one thing to the outside world, where the crash suite may kill us.
func step[T any](name string, do func() (T, error)) (T, error) {
	failpoint.Here("operate: before " + name)
	result, err := do()
	failpoint.Here("operate: after " + name)
	return result, err
}
