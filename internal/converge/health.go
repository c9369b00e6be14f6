package converge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// Times of looks.
const (
	lookTime = 2 * time.Minute // bounds one look
	soon     = 250 * time.Millisecond
	// unknownGrace replaces Options.Grace when the platform can't be looked at.
	unknownGrace = 30 * time.Second
	// A database that can't be brought back is tried again after one second,
	// doubling to one minute.
	firstRetry, lastRetry = time.Second, time.Minute
	// awayRetry is when to look again at one whose region can't be reached: that is known without asking it.
	awayRetry = 5 * time.Second
)

// look observes a database and attends to it when anything isn't as it should be.
func (k *Keeper) look(ctx context.Context, id cluster.ID, t target) (target, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	c, err := k.Store.ClusterForWork(ctx, id)
	if fault.IsKind(err, fault.NotFound) || err == nil && !mine(c) {
		t.well()
		return t, k.Every
	}
	if err == nil {
		seen, errSeen := k.observe(ctx, c)
		if errSeen == nil && !k.needsRepair(c, seen, t) {
			t.well()
			return t, k.pace(c, seen)
		}
		if errors.Is(errSeen, platform.ErrAway) {
			return t, min(awayRetry, k.Every) // nothing is known of it: its status says what was known last
		}
		var wait time.Duration
		if wait, err = k.repair(ctx, id, &t); err == nil {
			return t, wait
		}
	}
	if ctx.Err() == nil {
		k.Logger.WarnContext(ctx, "look after database", "cluster_id", int64(id), "error", err)
	}
	t.tries++
	return t, backoff(t.tries)
}

// settled are the statuses that no operation is in charge of, and that of a
// database that serves on while a backup copies it, maybe for hours.
var settled = []cluster.Status{cluster.Active, cluster.BackingUp, cluster.Degraded, cluster.Failed, cluster.Suspended}

// well reports whether all nodes of a database should be serving.
func well(s cluster.Status) bool { return s == cluster.Active || s == cluster.BackingUp }

// mine reports whether a database is to be looked after. One that never was
// provisioned is nobody's: its create has been given up.
func mine(c cluster.Cluster) bool {
	return slices.Contains(settled, c.Status) && c.Deleted == nil && c.Hosts.Primary != ""
}

// observe looks at a cluster; one whose files are gone has a problem that
// repeating won't help with.
func (k *Keeper) observe(ctx context.Context, c cluster.Cluster) (platform.Observed, error) {
	seen, err := k.Driver.Observe(ctx, c.ID)
	if err != nil {
		return seen, fmt.Errorf("observe: %w", err)
	}
	if platform.Lost(c, seen) {
		seen.Problem, seen.Permanent = platform.LostReason, true
	}
	return seen, nil
}

// needsRepair reports whether there is anything to do that needs the lease.
func (k *Keeper) needsRepair(c cluster.Cluster, seen platform.Observed, t target) bool {
	if c.Status == cluster.Suspended {
		return (!t.adopted || !seen.Suspended) && !platform.Lost(c, seen)
	}
	if !t.adopted || !seen.Serving || !seen.Settled || seen.Degraded || !well(c.Status) || seen.Failovers > c.Failovers || seen.Closed != operate.Closed(c) {
		return true
	}
	if plan, ok := k.Catalog.Plan(c.Type); ok {
		if _, due := guard(seen.UsedBytes, plan.DiskBytes(), c.ReadOnly); due {
			return true
		}
	}
	return worthRecording(c, seen)
}

// repair takes the lease, brings the database back, and records what came of it.
func (k *Keeper) repair(ctx context.Context, id cluster.ID, t *target) (wait time.Duration, err error) {
	ctx, release, ok, err := k.Store.Lease(ctx, id)
	if err != nil {
		return 0, err
	}
	if !ok {
		return firstRetry, nil // whoever holds it looks after it
	}
	defer release()
	c, err := k.Store.ClusterForWork(ctx, id)
	if fault.IsKind(err, fault.NotFound) || err == nil && !mine(c) {
		return k.Every, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read cluster: %w", err)
	}
	r := &repair{Keeper: k, c: c, t: t}
	if c.Status == cluster.Suspended {
		return r.rest(ctx)
	}
	return r.do(ctx)
}

// repair is one look at a database with its lease held.
type repair struct {
	*Keeper
	c    cluster.Cluster
	t    *target
	seen platform.Observed
}

func (r *repair) do(ctx context.Context) (time.Duration, error) {
	want, err := platform.NewWanted(r.c, r.Catalog, false)
	if err != nil {
		return 0, err
	}
	trouble := r.bringBack(ctx, want)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if trouble != nil {
		level := slog.LevelWarn
		if r.t.trouble == trouble.Error() { // several times a second maybe
			level = slog.LevelDebug
		}
		r.t.trouble = trouble.Error()
		r.Logger.Log(ctx, level, "bring database back", "cluster_id", int64(r.c.ID), "error", trouble)
	}
	if trouble == nil || r.seen.Degraded {
		if err := r.guardDisk(ctx, want); err != nil {
			return 0, err
		}
	}
	if err := r.record(ctx, r.seen); err != nil {
		return 0, err
	}
	if err := r.judge(ctx, want, trouble == nil); err != nil {
		return 0, err
	}
	return r.next(trouble != nil), nil
}

// next is when to look again. A look that didn't bring the database back counts.
func (r *repair) next(failed bool) time.Duration {
	switch {
	case !r.t.downSince.IsZero() && r.c.Status != cluster.Failed && r.c.Status != cluster.BackingUp:
		return soon
	case r.seen.Degraded && r.c.Status == cluster.Active: // its status says so soon
		return soon
	case r.seen.Degraded: // for days maybe, and its disk fills meanwhile
		r.t.tries++
		return min(backoff(r.t.tries), r.pace(r.c, r.seen))
	case failed || !r.seen.Serving || !r.seen.Settled:
		r.t.tries++
		return backoff(r.t.tries)
	}
	r.t.tries = 0
	return r.pace(r.c, r.seen)
}

// bringBack looks and, unless all is as wanted, applies once. What it saw last
// is in r.seen; the error is why it isn't as wanted.
func (r *repair) bringBack(ctx context.Context, want platform.Wanted) error {
	seen, err := r.observe(ctx, r.c)
	if err != nil {
		r.t.down()
	} else if r.saw(seen); r.asWanted() || platform.Lost(r.c, seen) {
		return nil
	}
	r.tell(ctx)
	var early error
	if r.reopens(err != nil || r.seen.Closed) {
		if early = r.Driver.SetPassword(ctx, want); early != nil {
			early = fmt.Errorf("nobody is let in before the password is set: %w", early)
			want.LockedOut = true
		}
	}
	applied := make(chan error, 1)
	go func() {
		failpoint.Here("converge: before apply")
		seen, err := r.Driver.Apply(ctx, want)
		failpoint.Here("converge: after apply")
		if err == nil && !seen.Settled {
			err = fmt.Errorf("not settled: %s", seen.Problem)
		}
		applied <- err
	}()
	err = r.await(ctx, applied)
	seen, errSeen := r.observe(ctx, r.c)
	if errSeen == nil {
		r.saw(seen)
	}
	err = errors.Join(early, err)
	if err == nil && !r.t.adopted {
		r.t.adopted = true
		r.Logger.DebugContext(ctx, "adopted", "cluster_id", int64(r.c.ID))
	}
	return errors.Join(err, errSeen)
}

// reopens reports whether a database that may be closed is to be opened to which
// nobody was let in, as its servers, also while they are down, may have a password
// that was reset.
func (r *repair) reopens(closed bool) bool {
	return closed && r.c.Status == cluster.Failed && !operate.Closed(r.c)
}

// asWanted reports whether nothing is left to apply. Looking alone doesn't compare
// with all of the row: after a start, and after an operation that was given up,
// one pass does.
func (r *repair) asWanted() bool {
	return r.t.adopted && well(r.c.Status) && r.seen.Serving && r.seen.Settled && !r.seen.Degraded &&
		r.seen.ReadOnly == r.c.ReadOnly && r.seen.Closed == operate.Closed(r.c)
}

// record writes down what was seen, a failover with its event.
func (r *repair) record(ctx context.Context, seen platform.Observed) error {
	if seen.Exists && worthRecording(r.c, seen) {
		if err := r.Store.RecordObserved(ctx, r.c.ID, keep(r.c, seen)); err != nil {
			return fmt.Errorf("record what was seen: %w", err)
		}
	}
	return errors.Join(r.tellFailover(ctx), r.tellSleep(ctx))
}

// tell makes what was seen known before Apply has ended, which may take minutes to
// copy a lost node's data: good news, and what may yet turn out well, wait for that.
// What fails here is tried again after it.
func (r *repair) tell(ctx context.Context) {
	seen := r.seen
	seen.ReadOnly = r.c.ReadOnly // of which guardDisk tells
	err := r.record(ctx, seen)
	trigger := r.trigger()
	tries := trigger == cluster.Down && time.Since(r.t.downSince) < r.Grace
	if err == nil && trigger != cluster.Healed && !tries && r.c.Status != cluster.Failed {
		err = r.move(ctx, trigger)
	}
	if err != nil {
		r.Logger.WarnContext(ctx, "tell how the database stands", "cluster_id", int64(r.c.ID), "error", err)
	}
}

// await waits for Apply, and tells meanwhile what the platform says has changed, and
// what goes on for longer than the grace.
func (r *repair) await(ctx context.Context, applied <-chan error) error {
	for {
		late := time.NewTimer(r.untilLate())
		select {
		case err := <-applied:
			late.Stop()
			return err
		case <-r.t.nudge:
		case <-late.C:
		}
		late.Stop()
		if seen, err := r.observe(ctx, r.c); err == nil {
			r.saw(seen)
			r.tell(ctx)
		}
	}
}

// untilLate is when the grace ends that what was seen has before the status tells of it.
func (r *repair) untilLate() time.Duration {
	since := r.t.downSince
	if since.IsZero() {
		since = r.t.fewerSince
	}
	if left := time.Until(since.Add(r.Grace)); !since.IsZero() && left > 0 {
		return left
	}
	return r.Every
}

// saw remembers what was seen, and since when it doesn't serve as it should.
func (r *repair) saw(seen platform.Observed) {
	r.seen = seen
	if !seen.Serving {
		r.t.down()
		return
	}
	r.t.downSince = time.Time{}
	if !seen.Degraded {
		r.t.fewerSince = time.Time{}
	} else if r.t.fewerSince.IsZero() {
		r.t.fewerSince = time.Now()
	}
}

// well forgets what was wrong.
func (t *target) well() {
	t.downSince, t.fewerSince, t.tries, t.trouble = time.Time{}, time.Time{}, 0, ""
}

func (t *target) down() {
	if t.downSince.IsZero() {
		t.downSince = time.Now()
	}
}

// judge moves the status to what was seen. Before a database is called active
// again, or degraded after it had failed, its root password is made the one
// that the API answers: a reset may have been given up. As long as its row can't be
// applied it isn't called active again, though it serves: what was given up isn't true yet.
func (r *repair) judge(ctx context.Context, want platform.Wanted, applied bool) error {
	if r.reopens(r.seen.Closed) {
		return nil // nobody could connect yet
	}
	trigger := r.trigger()
	if trigger == cluster.Healed && !applied {
		return nil
	}
	if trigger == cluster.Healed || trigger == cluster.NodeLost && r.c.Status == cluster.Failed {
		if r.c.LockedOut {
			return nil // it stays failed on purpose
		}
		failpoint.Here("converge: before set password")
		if err := r.Driver.SetPassword(ctx, want); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
	}
	return r.move(ctx, trigger)
}

// trigger is what was seen last means for the status.
func (r *repair) trigger() cluster.Trigger {
	grace := r.Grace
	if !r.seen.Exists && !r.seen.Permanent {
		grace = unknownGrace
	}
	since := r.t.downSince
	if r.seen.Serving {
		since = r.t.fewerSince
	}
	lasts := time.Duration(0)
	if !since.IsZero() {
		lasts = time.Since(since)
	}
	return trigger(r.c.Status, r.seen, lasts, grace)
}

// trigger is what a look means for the status; "" when nothing. It is pure. lasts is
// for how long the database has been down, or served with too few nodes: a server
// that starts again, or a replica that took over, has the grace for it. While a
// backup is taken the status stays: what happened meanwhile, the look after it tells.
func trigger(status cluster.Status, seen platform.Observed, lasts, grace time.Duration) cluster.Trigger {
	due := seen.Permanent || lasts >= grace
	switch {
	case status == cluster.BackingUp:
		return ""
	case seen.Serving:
		return servingTrigger(status, seen, due)
	case status != cluster.Failed && due:
		return cluster.Down
	}
	return ""
}

// servingTrigger is trigger for a database that serves. due reports whether that it has
// too few nodes is to be told.
func servingTrigger(status cluster.Status, seen platform.Observed, due bool) cluster.Trigger {
	switch {
	case seen.Degraded && status == cluster.Active && due:
		return cluster.NodeLost
	case seen.Degraded && status != cluster.Active && status != cluster.Degraded:
		return cluster.NodeLost
	case !seen.Degraded && seen.Settled && seen.Problem == "" && status != cluster.Active:
		return cluster.Healed
	}
	return ""
}

// move changes the status and tells of it, together.
func (r *repair) move(ctx context.Context, on cluster.Trigger) error {
	var action operation.Action
	var message string
	switch on {
	case "":
		return nil
	case cluster.Healed:
		action, message = operation.Recovered, "The database serves again."
		if r.c.Size > 1 {
			message = fmt.Sprintf("All %d nodes of the database serve again.", r.c.Size)
		}
	case cluster.NodeLost:
		action, message = operation.Degraded, fewerServe(r.c, r.seen)
	default:
		action, message = operation.Failed, doesntServe(r.seen)
	}
	before := r.c
	err := r.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if r.c, err = tx.Transition(ctx, before, on); err != nil {
			return err
		}
		return notify(ctx, tx, r.c, action, message)
	})
	if errors.Is(err, store.ErrNoTransition) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	r.Logger.WarnContext(ctx, "database has changed by itself", "cluster_id", int64(r.c.ID), "action", string(action), "message", message, "problems", problems(r.seen))
	return nil
}

func notify(ctx context.Context, tx *store.Tx, c cluster.Cluster, action operation.Action, message string) error {
	_, err := tx.CreateOperation(ctx, notification(c, action, message))
	return err
}

// notification is the event of what was found of a cluster.
func notification(c cluster.Cluster, action operation.Action, message string) operation.Operation {
	return operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: action, Status: operation.Notification, Message: message,
	}
}

// backoff is the pause after the n-th look in vain.
func backoff(tries int) time.Duration {
	return min(firstRetry<<min(max(tries-1, 0), 10), lastRetry)
}
