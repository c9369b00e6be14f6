package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/platform"
)

// passTime bounds a pass whose caller set no limit.
const passTime = 90 * time.Second

// obstacle is a problem that repeating Apply won't help with.
type obstacle struct{ problem string }

func (o *obstacle) Error() string { return o.problem }

// Apply is part of platform.Driver.
func (d *Driver) Apply(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, passTime)
		defer cancel()
	}
	if want.Patch {
		d.discoverAgain(ctx, freshDiscovery)
	}
	u := d.unit(want.ID)
	if err := d.recall(ctx, u, want.Encrypted, max(1, want.Size)); err != nil {
		return platform.Observed{}, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	ctx, give, err := u.occupy(ctx)
	if err != nil {
		return platform.Observed{}, err
	}
	defer give()
	defer d.templates.busy()()
	p, err := d.newPass(u, want)
	if err == nil {
		err = p.run(ctx)
		if p.top.Members > 1 {
			d.keepVigil(u)
		}
	}
	var problem *obstacle
	if errors.As(err, &problem) {
		u.setProblem(problem.problem, true)
		err = nil
	} else if err == nil {
		u.setProblem("", false)
	}
	seen, errLook := d.observe(ctx, u, &want)
	d.tellStandings(u)
	if err != nil {
		return seen, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	return seen, errLook
}
