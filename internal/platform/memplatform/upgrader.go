package memplatform

import (
	"context"
	"io"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// TrialPause is how long a trial says that an upgrade takes.
const TrialPause = 3 * time.Second

// Upgrade implements platform.Upgrader. What was before is Aside.
func (d *Driver) Upgrade(ctx context.Context, want platform.Wanted, pausing func() error) error {
	want.Installation = ""
	installation, version, err := d.installation(want, true)
	if err != nil {
		return err
	}
	if c, ok := d.world.Cluster(want.ID); ok && c.Installation == installation {
		return nil
	}
	if err := d.faults.around(ctx, StepMove, want.ID, pausing); err != nil {
		return err
	}
	return d.faults.around(ctx, StepSwap, want.ID, func() error {
		return d.change(want.ID, func(c *Cluster) {
			c.Aside, c.Undone = new(c.content()), false
			c.Installation, c.Version, c.Running, c.Routed, c.Polished = installation, version, true, false, false
			c.Starts++
		})
	})
}

// Abandon implements platform.Upgrader.
func (d *Driver) Abandon(ctx context.Context, want platform.Wanted) error {
	return d.faults.around(ctx, StepAbandon, want.ID, func() error {
		return d.change(want.ID, func(c *Cluster) {
			if cluster.SeriesOf(c.Installation) != want.Series && c.Aside != nil {
				c.Data, c.Password, c.Installation, c.Aside = c.Aside.Data, c.Aside.Password, c.Aside.Installation, nil
				c.Running, c.Routed = false, false
			}
		})
	})
}

// FinishUpgrade implements platform.Upgrader.
func (d *Driver) FinishUpgrade(ctx context.Context, want platform.Wanted) (note string, err error) {
	return "", d.faults.around(ctx, StepFinish, want.ID, func() error {
		return d.change(want.ID, func(c *Cluster) { c.Polished = true })
	})
}

// TryUpgrade implements platform.Upgrader. The data refuses when it says so.
func (d *Driver) TryUpgrade(ctx context.Context, want platform.Wanted, _ platform.Copy, r io.Reader) (found platform.Trial, err error) {
	err = d.faults.around(ctx, StepTry, want.ID, func() error {
		content, err := d.read(ctx, want.ID, r, func(int64) {})
		if err != nil {
			return err
		}
		found.Pause = TrialPause
		if strings.Contains(content.Data, "obstacle") {
			found = platform.Trial{Reasons: []string{"There is an obstacle."}}
		}
		return nil
	})
	return found, err
}
