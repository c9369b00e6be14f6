package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/failpoint"
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
	u := d.unit(want.ID)
	if err := u.take(ctx); err != nil {
		return platform.Observed{}, err
	}
	defer u.give()
	defer d.templates.busy()()
	err := d.pass(ctx, u, want)
	var problem *obstacle
	if errors.As(err, &problem) {
		u.setProblem(problem.problem, true)
		err = nil
	} else if err == nil {
		u.setProblem("", false)
	}
	seen, errLook := d.observe(ctx, u, &want)
	if err != nil {
		return seen, fmt.Errorf("cluster %d: %w", want.ID, err)
	}
	return seen, errLook
}

// pass looks, plans and carries out.
func (d *Driver) pass(ctx context.Context, u *unit, want platform.Wanted) error {
	j, err := d.newJob(ctx, u, want, 0)
	if err != nil {
		return err
	}
	s, err := j.look(ctx)
	if err != nil {
		return err
	}
	for _, step := range plan(s) {
		failpoint.Here("host: before " + string(step))
		began := time.Now()
		if err := j.do(ctx, step); err != nil {
			return fmt.Errorf("%s: %w", step, err)
		}
		d.log.Debug("step done", "cluster_id", want.ID, "step", string(step), "ms", milliseconds(time.Since(began)))
		failpoint.Here("host: after " + string(step))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
