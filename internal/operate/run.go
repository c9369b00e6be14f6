// Package operate carries operations out: what was asked for once, and ends. An
// operation may be begun any number of times; each pass looks, acts where
// needed and looks again, so a crash at any point costs no more than a repeat.
package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// Options are what an Operator is made of.
type Options struct {
	Store   *store.Store
	Driver  platform.Driver
	Catalog *catalog.Catalog
	Logger  *slog.Logger
}

// Operator carries operations out.
type Operator struct{ Options }

// New makes an Operator.
func New(o Options) *Operator { return &Operator{o} }

// Timings.
const (
	// passTime bounds one pass over an operation.
	passTime = 90 * time.Second
	// passWake is when a sweep looks after a pass that died: soon, since it can
	// do no harm while the lease is held.
	passWake = 15 * time.Second
	// leaseRetry is when to look again while somebody else acts on the cluster.
	leaseRetry = 100 * time.Millisecond
	// applyPause is between two looks at a cluster that isn't settled yet.
	applyPause = 20 * time.Millisecond
	// firstRetry and lastRetry bound the pause between passes that failed.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 30 * time.Second
	// giveUpAfter is how long an operation is tried.
	giveUpAfter = 10 * time.Minute
)

// errPermanent marks a problem that repeating won't mend.
var errPermanent = errors.New("permanent")

// Run does one pass over an operation. again is when to look next; 0 means
// that nothing is left to do, or that the sweep will look.
func (r *Operator) Run(ctx context.Context, id operation.ID) (again time.Duration, err error) {
	o, err := r.Store.OperationForWork(ctx, id)
	if fault.IsKind(err, fault.NotFound) || err == nil && o.Status.Done() {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read operation: %w", err)
	}
	leased, release, ok, err := r.Store.Lease(ctx, o.Cluster)
	if err != nil {
		return 0, err
	}
	if !ok {
		return leaseRetry, nil
	}
	defer release()
	return r.pass(leased, o)
}

// pass acts under the lease. Everything is read anew: another worker may have
// finished it while this one waited.
func (r *Operator) pass(ctx context.Context, o operation.Operation) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, passTime)
	defer cancel()
	if begun, err := r.Store.StartOperation(ctx, o.ID, passWake); err != nil || !begun {
		return 0, err
	}
	o, err := r.Store.OperationForWork(ctx, o.ID)
	if err != nil {
		return 0, err
	}
	c, err := r.Store.ClusterForWork(ctx, o.Cluster)
	if fault.IsKind(err, fault.NotFound) {
		return 0, r.finish(ctx, o, operation.Finished, "", nil)
	}
	if err != nil {
		return 0, err
	}
	log := r.Logger.With("operation_id", o.ID, "action", o.Action, "cluster_id", c.ID)
	begun := time.Now()
	work := r.carryOut(ctx, o, c)
	failpoint.Here("operate: " + string(o.Action) + " carried out")
	switch {
	case work == nil:
		log.InfoContext(ctx, "operation carried out", "took", time.Since(begun).Round(time.Millisecond))
		return 0, r.succeed(ctx, o, c)
	case errors.Is(work, errPermanent) || time.Since(o.Created) > giveUpAfter:
		log.ErrorContext(ctx, "operation given up", "error", work)
		return 0, r.giveUp(context.WithoutCancel(ctx), o, c, work)
	}
	pause := min(firstRetry<<min(o.Attempt, 10), lastRetry)
	log.WarnContext(ctx, "operation will be tried again", "error", work, "attempt", o.Attempt, "again_in", pause)
	progress, cancelProgress := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelProgress()
	return pause, r.Store.ProgressOperation(progress, o.ID, o.Percent, "Trying again: "+forPeople(work), pause+passWake)
}

// carryOut does what the operation's action says.
func (r *Operator) carryOut(ctx context.Context, o operation.Operation, c cluster.Cluster) error {
	if c.Deleted != nil {
		return r.remove(ctx, o, c)
	}
	switch o.Action {
	case operation.Create, operation.Update, operation.Resize, operation.Patch:
		return r.apply(ctx, o, c)
	case operation.CredentialsReset:
		return r.reset(ctx, o, c)
	case operation.Delete:
		return r.remove(ctx, o, c)
	}
	return fmt.Errorf("unknown action %q: %w", o.Action, errPermanent)
}

// Wanted is what the driver is asked for on behalf of a cluster.
func Wanted(c cluster.Cluster, plans *catalog.Catalog, patch bool) (platform.Wanted, error) {
	plan, ok := plans.Plan(c.Type)
	if !ok {
		return platform.Wanted{}, fmt.Errorf("type %s is not in the catalogue any more; put it back, marked deprecated: %w", c.Type, errPermanent)
	}
	return platform.Wanted{Cluster: c, Plan: plan, Patch: patch}, nil
}

// apply has the driver work until what it sees is what was asked for.
func (r *Operator) apply(ctx context.Context, o operation.Operation, c cluster.Cluster) error {
	want, err := Wanted(c, r.Catalog, o.Action == operation.Patch)
	if err != nil {
		return err
	}
	for percent := 10; ; percent = min(percent+10, 90) {
		failpoint.Here("operate: before apply")
		seen, err := r.Driver.Apply(ctx, want)
		failpoint.Here("operate: after apply")
		if err != nil {
			return err
		}
		if err := r.Store.RecordObserved(ctx, c.ID, seen); err != nil {
			return err
		}
		if seen.Permanent {
			return fmt.Errorf("%s: %w", seen.Problem, errPermanent)
		}
		if seen.Settled && seen.Serving {
			return nil
		}
		if err := r.Store.ProgressOperation(ctx, o.ID, percent, seen.Problem, passWake); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", orElse(seen.Problem, "not there yet"), ctx.Err())
		case <-time.After(applyPause):
		}
	}
}

// reset makes the password that was sealed with the request the one that works.
func (r *Operator) reset(ctx context.Context, _ operation.Operation, c cluster.Cluster) error {
	want, err := Wanted(c, r.Catalog, false)
	if err != nil {
		return err
	}
	failpoint.Here("operate: before set password")
	return r.Driver.SetPassword(ctx, want)
}

// remove takes away everything a deleted cluster is made of.
func (r *Operator) remove(ctx context.Context, _ operation.Operation, c cluster.Cluster) error {
	failpoint.Here("operate: before remove")
	return r.Driver.Remove(ctx, c)
}

// succeed ends the operation and moves the status, together.
func (r *Operator) succeed(ctx context.Context, o operation.Operation, c cluster.Cluster) error {
	return r.finish(ctx, o, operation.Finished, "", func(tx *store.Tx) error {
		if c.Deleted != nil {
			if err := tx.FailOtherOperations(ctx, c.ID, o.ID, "The database was deleted."); err != nil {
				return err
			}
			return tx.RemoveCluster(ctx, c.ID)
		}
		return move(ctx, tx, c, cluster.Ready)
	})
}

// giveUp ends the operation with a reason for people. A cluster that still
// serves is degraded rather than failed.
func (r *Operator) giveUp(ctx context.Context, o operation.Operation, c cluster.Cluster, cause error) error {
	if c.Deleted != nil {
		// Nobody can see or mend it but the operator: it is tried for ever, and told.
		return r.Store.ProgressOperation(ctx, o.ID, o.Percent, forPeople(cause), lastRetry)
	}
	trigger := cluster.GiveUp
	if c.Status == cluster.Updating {
		if seen, err := r.Driver.Observe(ctx, c.ID); err == nil && seen.Serving {
			trigger = cluster.GiveUpServes
		}
	}
	return r.finish(ctx, o, operation.FailedStatus, forPeople(cause), func(tx *store.Tx) error {
		return move(ctx, tx, c, trigger)
	})
}

// move is Transition for a worker that may be repeating itself.
func move(ctx context.Context, tx *store.Tx, c cluster.Cluster, on cluster.Trigger) error {
	fresh, err := tx.ClusterForWork(ctx, c.ID)
	if err != nil {
		return err
	}
	if fresh.Status != c.Status {
		return nil // somebody else has moved it on
	}
	_, err = tx.Transition(ctx, fresh, on)
	return err
}

func (r *Operator) finish(ctx context.Context, o operation.Operation, status operation.Status, message string, also func(tx *store.Tx) error) error {
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		if also != nil {
			if err := also(tx); err != nil {
				return fmt.Errorf("end operation %d: %w", o.ID, err)
			}
		}
		return tx.FinishOperation(ctx, o.ID, status, message)
	})
}

// forPeople is what an event says of a failure: the outermost words, without
// our own marks. Server addresses and paths in it are the operator's business,
// so only faults and marked problems are shown whole.
func forPeople(err error) string {
	if found, ok := fault.All(err); ok {
		return found[0].Reason
	}
	if errors.Is(err, errPermanent) {
		return trimMark(err.Error())
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "It took too long; the operator's log has the details."
	}
	return "An internal step failed; the operator's log has the details."
}

func trimMark(text string) string {
	const mark = ": permanent"
	if n := len(text) - len(mark); n > 0 && text[n:] == mark {
		return text[:n]
	}
	return text
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
