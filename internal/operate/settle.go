package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/wait"
)

// wanted returns what is wanted of the operation's cluster.
func (w *work) wanted(patch bool) (platform.Wanted, error) {
	want, err := platform.NewWanted(w.c, w.Catalog, patch)
	if unknown, ok := errors.AsType[*platform.UnknownPlanError](err); ok {
		return want, &impossible{reason: unknown.Error()}
	}
	return want, err
}

// hopelessReason is what customers are told when the platform is sure that trying
// again won't help: what it says itself names files, processes and accounts.
const hopelessReason = "It can't be done as things are; the operator's log tells why."

var errLost = &impossible{reason: platform.LostReason}

// settle applies what is wanted until it is there. Passes that end without an
// error but not at the goal are repeated soon, as are those that wait for a copy;
// errors for a few seconds, after which the next attempt is left to another run.
func (w *work) settle(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	return w.settleFor(ctx, want, w.Limits.Quick)
}

// settleRestored waits longer, because replicas are given copies of the
// restored data, but not for hours: then upkeep goes on with a primary that serves.
func (w *work) settleRestored(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	seen, err := w.settleFor(ctx, want, w.Limits.Copies)
	if err == nil {
		return seen, nil
	}
	now, failed := w.Driver.Observe(ctx, w.c.ID)
	if failed != nil || !now.Serving || now.Closed != Closed(want.Cluster) {
		return seen, err
	}
	w.log.WarnContext(ctx, "restored; not all nodes are well yet", "error", err)
	return now, nil
}

// settleFor is settle that repeats errors for as long as patience.
func (w *work) settleFor(ctx context.Context, want platform.Wanted, patience time.Duration) (platform.Observed, error) {
	if err := w.notLost(ctx); err != nil {
		return platform.Observed{}, err
	}
	quick := time.Now().Add(patience)
	var down time.Time // since when nothing is known to take writes
	var logged string
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		seen, err := step("apply", func() (platform.Observed, error) { return w.Driver.Apply(ctx, want) })
		switch {
		case err == nil && seen.Permanent:
			return seen, &impossible{reason: hopelessReason, cause: errors.New(seen.Problem)}
		case err == nil && reached(want, seen):
			return seen, nil
		case want.Switchover != nil && err == nil && lasts(&down, !seen.Serving) >= w.Limits.Unserved:
			return seen, &impossible{reason: "No node takes writes: the old primary is gone, and none has taken over.", cause: errors.New(seen.Problem)}
		case errors.Is(err, platform.ErrCopying):
			quick = time.Now().Add(patience)
		case isCustomerError(err), err != nil && time.Now().After(quick):
			return seen, fmt.Errorf("apply: %w", err)
		}
		unsettled := whyUnsettled(seen, err)
		if why := unsettled.Error(); why != logged {
			w.log.DebugContext(ctx, "not settled yet", "error", why)
			logged = why
		}
		if wait.Sleep(ctx, pause) != nil {
			return seen, unsettled
		}
	}
}

// whyUnsettled is why an apply that ended so hasn't reached the goal.
func whyUnsettled(seen platform.Observed, err error) error {
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return fmt.Errorf("not settled in time: %s", seen.Problem)
}

// lasts is for how long something has been so, and keeps in since when.
func lasts(since *time.Time, so bool) time.Duration {
	switch {
	case !so:
		*since = time.Time{}
		return 0
	case since.IsZero():
		*since = time.Now()
	}
	return time.Since(*since)
}

// Closed reports whether nobody should be let into a cluster.
func Closed(c cluster.Cluster) bool { return c.LockedOut || len(c.AllowList) == 0 }

// reached reports whether a cluster is as wanted: it serves, or rests. Serving
// settled isn't enough for one that should rest.
func reached(want platform.Wanted, seen platform.Observed) bool {
	if want.Suspended {
		return seen.Settled && seen.Suspended
	}
	return seen.Settled && seen.Serving
}

func (w *work) notLost(ctx context.Context) error {
	if w.c.Hosts.Primary == "" {
		return nil
	}
	seen, err := w.Driver.Observe(ctx, w.c.ID)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	if platform.Lost(w.c, seen) {
		return errLost
	}
	return nil
}
