package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// Wanted is what a platform is asked for on behalf of a cluster; its status
// says whether anything should run. The error is for people: the cluster's plan
// is no longer in the catalogue, which doesn't matter to what rests.
func Wanted(c cluster.Cluster, plans *catalog.Catalog, patch bool) (platform.Wanted, error) {
	plan, ok := plans.Plan(c.Type)
	if !ok && !c.Status.Resting() {
		return platform.Wanted{}, &impossible{reason: fmt.Sprintf("The type %s is no longer in the catalogue; the operator has to put it back, marked as deprecated.", c.Type)}
	}
	return platform.Wanted{Cluster: c, Plan: plan, Patch: patch, Suspended: c.Status.Resting()}, nil
}

// Lost reports whether a cluster that was provisioned has left nothing behind.
// Applying its spec would make an empty one in its place: a disk that isn't
// mounted must not end in that.
func Lost(c cluster.Cluster, seen platform.Observed) bool {
	return c.Hosts.Primary != "" && !seen.Exists
}

// hopelessReason is what customers are told when the platform is sure that trying
// again won't help: what it says itself names files, processes and accounts.
const hopelessReason = "It can't be done as things are; the operator's log tells why."

// LostReason is what people are told then.
const LostReason = "The database's files are gone; nothing was made in their place."

var errLost = &impossible{reason: LostReason}

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
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		seen, err := step("apply", func() (platform.Observed, error) { return w.Driver.Apply(ctx, want) })
		switch {
		case err == nil && seen.Permanent:
			return seen, &impossible{reason: hopelessReason, cause: errors.New(seen.Problem)}
		case err == nil && reached(want, seen):
			return seen, nil
		case errors.Is(err, platform.ErrCopying):
			quick = time.Now().Add(patience)
		case isHindrance(err), err != nil && time.Now().After(quick):
			return seen, fmt.Errorf("apply: %w", err)
		}
		if sleep(ctx, pause) != nil {
			if err != nil {
				return seen, fmt.Errorf("apply: %w", err)
			}
			return seen, fmt.Errorf("not settled in time: %s", seen.Problem)
		}
	}
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
	if Lost(w.c, seen) {
		return errLost
	}
	return nil
}
