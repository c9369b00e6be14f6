package converge

import (
	"context"
	"fmt"
	"time"

	"steward/internal/platform"
)

// rest sees to it that nothing of a suspended database runs: something may have
// been left running when steward died, or been started by hand. It is neither
// down nor healed: only a resume changes its status.
func (a *attendance) rest(ctx context.Context) (time.Duration, error) {
	a.p.downSince = time.Time{}
	seen, err := a.observe(ctx, a.c)
	if err != nil || platform.Lost(a.c, seen) {
		return a.Every, err
	}
	want, err := platform.NewWanted(a.c, a.Catalog, false)
	if err != nil {
		return 0, err
	}
	seen, err = a.Driver.Apply(ctx, want)
	if err == nil && !seen.Suspended {
		err = fmt.Errorf("still running: %s", seen.Problem)
	}
	if err != nil {
		return 0, fmt.Errorf("keep a suspended database at rest: %w", err)
	}
	a.p.adopted, a.p.tries = true, 0
	return a.Every, nil
}
