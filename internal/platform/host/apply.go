package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/platform"
)

// reconcileTimeout bounds a reconciliation whose caller set no limit.
const reconcileTimeout = 90 * time.Second

// permanentError is a problem that repeating Apply won't help with.
type permanentError struct{ problem string }

func (o *permanentError) Error() string { return o.problem }

// Apply implements platform.Driver.
func (d *Driver) Apply(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, reconcileTimeout)
		defer cancel()
	}
	if want.Patch {
		d.discoverAgain(ctx, freshDiscovery)
	}
	cs := d.clusterState(want.ID)
	if err := d.cacheSecrets(ctx, cs, want.Encrypted, max(1, want.Size)); err != nil {
		return platform.Observed{}, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	if top, err := d.topology(want.ID); err == nil && top.Sleeps() && !want.Suspended && !d.asleepAsWanted(want, top) {
		done, err := d.use(ctx, cs, wokenForChange)
		if err != nil {
			return platform.Observed{}, err
		}
		defer done()
	}
	ctx, unlock, err := cs.acquire(ctx)
	if err != nil {
		return platform.Observed{}, err
	}
	defer unlock()
	defer d.activity.begin()()
	cr, err := d.newClusterReconciler(cs, want)
	if err == nil {
		err = cr.run(ctx)
		if cr.top.Size > 1 {
			d.startHealthMonitor(cs)
		}
	}
	var problem *permanentError
	if errors.As(err, &problem) {
		cs.setProblem(problem.problem, true)
		err = nil
	} else if err == nil {
		cs.setProblem("", false)
	}
	seen, errLook := d.observe(ctx, cs, &want)
	d.saveReplication(cs)
	if err != nil {
		return seen, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	return seen, errLook
}
