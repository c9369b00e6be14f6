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
func (r *repair) rest(ctx context.Context) (time.Duration, error) {
	r.t.downSince = time.Time{}
	seen, err := r.observe(ctx, r.c)
	if err != nil || platform.Lost(r.c, seen) {
		return r.Every, err
	}
	want, err := platform.NewWanted(r.c, r.Catalog, false)
	if err != nil {
		return 0, err
	}
	seen, err = r.Driver.Apply(ctx, want)
	if err == nil && !seen.Suspended {
		err = fmt.Errorf("still running: %s", seen.Problem)
	}
	if err != nil {
		return 0, fmt.Errorf("keep a suspended database at rest: %w", err)
	}
	r.t.adopted, r.t.tries = true, 0
	return r.Every, nil
}
