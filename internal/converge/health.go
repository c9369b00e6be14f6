package converge

import (
	"context"
	"errors"
	"fmt"
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
)

// look observes a database and attends to it when anything isn't as it should be.
func (k *Keeper) look(ctx context.Context, id cluster.ID, p patient) (patient, time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	c, err := k.Store.ClusterForWork(ctx, id)
	if fault.IsKind(err, fault.NotFound) || err == nil && !mine(c) {
		p.well()
		return p, k.Every
	}
	if err == nil {
		seen, errSeen := k.observe(ctx, c)
		if errSeen == nil && !k.needsAttention(c, seen, p) {
			p.well()
			return p, k.pace(c, seen)
		}
		var wait time.Duration
		if wait, err = k.attend(ctx, id, &p); err == nil {
			return p, wait
		}
	}
	if ctx.Err() == nil {
		k.Logger.WarnContext(ctx, "look after database", "cluster_id", int64(id), "error", err)
	}
	p.tries++
	return p, backoff(p.tries)
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

// needsAttention reports whether there is anything to do that needs the lease.
func (k *Keeper) needsAttention(c cluster.Cluster, seen platform.Observed, p patient) bool {
	if c.Status == cluster.Suspended {
		return (!p.adopted || !seen.Suspended) && !platform.Lost(c, seen)
	}
	if !p.adopted || !seen.Serving || !seen.Settled || seen.Degraded || !well(c.Status) || seen.Failovers > c.Failovers || seen.Closed != operate.Closed(c) {
		return true
	}
	if plan, ok := k.Catalog.Plan(c.Type); ok {
		if _, due := guard(seen.UsedBytes, plan.DiskBytes(), c.ReadOnly); due {
			return true
		}
	}
	return worthRecording(c, seen)
}

// attend takes the lease, brings the database back, and records what came of it.
func (k *Keeper) attend(ctx context.Context, id cluster.ID, p *patient) (wait time.Duration, err error) {
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
	a := &attendance{Keeper: k, c: c, p: p}
	if c.Status == cluster.Suspended {
		return a.rest(ctx)
	}
	return a.do(ctx)
}

// attendance is one look at a database with its lease held.
type attendance struct {
	*Keeper
	c    cluster.Cluster
	p    *patient
	seen platform.Observed
}

func (a *attendance) do(ctx context.Context) (time.Duration, error) {
	want, err := platform.NewWanted(a.c, a.Catalog, false)
	if err != nil {
		return 0, err
	}
	trouble := a.bringBack(ctx, want)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if trouble != nil {
		a.Logger.WarnContext(ctx, "bring database back", "cluster_id", int64(a.c.ID), "error", trouble)
	}
	if trouble == nil || a.seen.Degraded {
		if err := a.guardDisk(ctx, want); err != nil {
			return 0, err
		}
	}
	if err := a.record(ctx, a.seen); err != nil {
		return 0, err
	}
	if err := a.judge(ctx, want); err != nil {
		return 0, err
	}
	switch {
	case !a.p.downSince.IsZero() && a.c.Status != cluster.Failed && a.c.Status != cluster.BackingUp:
		return soon, nil
	case a.seen.Degraded && a.c.Status == cluster.Active: // its status says so soon
		return soon, nil
	case a.seen.Degraded: // for days maybe, and its disk fills meanwhile
		a.p.tries++
		return min(backoff(a.p.tries), a.pace(a.c, a.seen)), nil
	case trouble != nil || !a.seen.Serving || !a.seen.Settled:
		a.p.tries++
		return backoff(a.p.tries), nil
	}
	a.p.tries = 0
	return a.pace(a.c, a.seen), nil
}

// bringBack looks and, unless all is as wanted, applies once. What it saw last
// is in a.seen; the error is why it isn't as wanted.
func (a *attendance) bringBack(ctx context.Context, want platform.Wanted) error {
	seen, err := a.observe(ctx, a.c)
	if err != nil {
		a.p.down()
	} else if a.saw(seen); a.asWanted() || platform.Lost(a.c, seen) {
		return nil
	}
	a.tell(ctx)
	var early error
	if a.reopens(err != nil || a.seen.Closed) {
		if early = a.Driver.SetPassword(ctx, want); early != nil {
			early = fmt.Errorf("nobody is let in before the password is set: %w", early)
			want.LockedOut = true
		}
	}
	applied := make(chan error, 1)
	go func() {
		failpoint.Here("converge: before apply")
		seen, err := a.Driver.Apply(ctx, want)
		failpoint.Here("converge: after apply")
		if err == nil && !seen.Settled {
			err = fmt.Errorf("not settled: %s", seen.Problem)
		}
		applied <- err
	}()
	err = a.await(ctx, applied)
	seen, errSeen := a.observe(ctx, a.c)
	if errSeen == nil {
		a.saw(seen)
	}
	err = errors.Join(early, err)
	a.p.adopted = a.p.adopted || err == nil
	return errors.Join(err, errSeen)
}

// reopens reports whether a database that may be closed is to be opened to which
// nobody was let in, as its servers, also while they are down, may have a password
// that was reset.
func (a *attendance) reopens(closed bool) bool {
	return closed && a.c.Status == cluster.Failed && !operate.Closed(a.c)
}

// asWanted reports whether nothing is left to apply. Looking alone doesn't compare
// with all of the row: after a start, and after an operation that was given up,
// one pass does.
func (a *attendance) asWanted() bool {
	return a.p.adopted && well(a.c.Status) && a.seen.Serving && a.seen.Settled && !a.seen.Degraded &&
		a.seen.ReadOnly == a.c.ReadOnly && a.seen.Closed == operate.Closed(a.c)
}

// record writes down what was seen, a failover with its event.
func (a *attendance) record(ctx context.Context, seen platform.Observed) error {
	if seen.Exists && worthRecording(a.c, seen) {
		if err := a.Store.RecordObserved(ctx, a.c.ID, keep(a.c, seen)); err != nil {
			return fmt.Errorf("record what was seen: %w", err)
		}
	}
	return a.tellFailover(ctx)
}

// tell makes what was seen known before Apply has ended, which may take minutes to
// copy a lost node's data: good news, and what may yet turn out well, wait for that.
// What fails here is tried again after it.
func (a *attendance) tell(ctx context.Context) {
	seen := a.seen
	seen.ReadOnly = a.c.ReadOnly // of which guardDisk tells
	err := a.record(ctx, seen)
	trigger := a.verdict()
	tries := trigger == cluster.Down && time.Since(a.p.downSince) < a.Grace
	if err == nil && trigger != cluster.Healed && !tries && a.c.Status != cluster.Failed {
		err = a.move(ctx, trigger)
	}
	if err != nil {
		a.Logger.WarnContext(ctx, "tell how the database stands", "cluster_id", int64(a.c.ID), "error", err)
	}
}

// await waits for Apply, and tells meanwhile what the platform says has changed, and
// what goes on for longer than the grace.
func (a *attendance) await(ctx context.Context, applied <-chan error) error {
	for {
		late := time.NewTimer(a.untilLate())
		select {
		case err := <-applied:
			late.Stop()
			return err
		case <-a.p.nudge:
		case <-late.C:
		}
		late.Stop()
		if seen, err := a.observe(ctx, a.c); err == nil {
			a.saw(seen)
			a.tell(ctx)
		}
	}
}

// untilLate is when the grace ends that what was seen has before the status tells of it.
func (a *attendance) untilLate() time.Duration {
	since := a.p.downSince
	if since.IsZero() {
		since = a.p.fewerSince
	}
	if left := time.Until(since.Add(a.Grace)); !since.IsZero() && left > 0 {
		return left
	}
	return a.Every
}

// saw remembers what was seen, and since when it doesn't serve as it should.
func (a *attendance) saw(seen platform.Observed) {
	a.seen = seen
	if !seen.Serving {
		a.p.down()
		return
	}
	a.p.downSince = time.Time{}
	if !seen.Degraded {
		a.p.fewerSince = time.Time{}
	} else if a.p.fewerSince.IsZero() {
		a.p.fewerSince = time.Now()
	}
}

// well forgets what was wrong.
func (p *patient) well() { p.downSince, p.fewerSince, p.tries = time.Time{}, time.Time{}, 0 }

func (p *patient) down() {
	if p.downSince.IsZero() {
		p.downSince = time.Now()
	}
}

// judge moves the status to what was seen. Before a database is called active
// again, or degraded after it had failed, its root password is made the one
// that the API answers: a reset may have been given up.
func (a *attendance) judge(ctx context.Context, want platform.Wanted) error {
	if a.reopens(a.seen.Closed) {
		return nil // nobody would come in yet
	}
	trigger := a.verdict()
	if trigger == cluster.Healed || trigger == cluster.NodeLost && a.c.Status == cluster.Failed {
		if a.c.LockedOut {
			return nil // it stays failed on purpose
		}
		failpoint.Here("converge: before set password")
		if err := a.Driver.SetPassword(ctx, want); err != nil {
			return fmt.Errorf("set password: %w", err)
		}
	}
	return a.move(ctx, trigger)
}

// verdict is what was seen last means for the status.
func (a *attendance) verdict() cluster.Trigger {
	grace := a.Grace
	if !a.seen.Exists && !a.seen.Permanent {
		grace = unknownGrace
	}
	since := a.p.downSince
	if a.seen.Serving {
		since = a.p.fewerSince
	}
	lasts := time.Duration(0)
	if !since.IsZero() {
		lasts = time.Since(since)
	}
	return verdict(a.c.Status, a.seen, lasts, grace)
}

// verdict is what a look means for the status; "" when nothing. It is pure. lasts is
// for how long the database has been down, or served with too few nodes: a server
// that starts again, or a replica that took over, has the grace for it. While a
// backup is taken the status stays: what happened meanwhile, the look after it tells.
func verdict(status cluster.Status, seen platform.Observed, lasts, grace time.Duration) cluster.Trigger {
	switch {
	case status == cluster.BackingUp:
		return ""
	case seen.Serving && seen.Degraded && status != cluster.Degraded:
		if status == cluster.Active && lasts < grace && !seen.Permanent {
			return ""
		}
		return cluster.NodeLost
	case seen.Serving && seen.Settled && !seen.Degraded && seen.Problem == "" && status != cluster.Active:
		return cluster.Healed
	case seen.Serving || status == cluster.Failed:
		return ""
	case seen.Permanent || lasts >= grace:
		return cluster.Down
	}
	return ""
}

// move changes the status and tells of it, together.
func (a *attendance) move(ctx context.Context, on cluster.Trigger) error {
	var action operation.Action
	var message string
	switch on {
	case "":
		return nil
	case cluster.Healed:
		action, message = operation.Recovered, "The database serves again."
		if a.c.Size > 1 {
			message = fmt.Sprintf("All %d nodes of the database serve again.", a.c.Size)
		}
	case cluster.NodeLost:
		action, message = operation.Degraded, fewerServe(a.c, a.seen)
	default:
		action, message = operation.Failed, doesntServe(a.seen)
	}
	before := a.c
	err := a.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if a.c, err = tx.Transition(ctx, before, on); err != nil {
			return err
		}
		return notify(ctx, tx, a.c, action, message)
	})
	if errors.Is(err, store.ErrNoTransition) {
		return nil // deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	a.Logger.WarnContext(ctx, "database has changed by itself", "cluster_id", int64(a.c.ID), "action", string(action), "message", message, "problems", problems(a.seen))
	return nil
}

func notify(ctx context.Context, tx *store.Tx, c cluster.Cluster, action operation.Action, message string) error {
	_, err := tx.CreateOperation(ctx, operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: action, Status: operation.Notification, Message: message,
	})
	return err
}

// backoff is the pause after the n-th look in vain.
func backoff(tries int) time.Duration {
	return min(firstRetry<<min(max(tries-1, 0), 10), lastRetry)
}
