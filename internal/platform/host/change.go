package host

import (
	"context"
	"fmt"

	"steward/internal/failpoint"
	"steward/internal/platform"
)

// SetPassword is part of platform.Driver.
func (d *Driver) SetPassword(ctx context.Context, want platform.Wanted) error {
	return d.withServer(ctx, want, "set password", func(j *job) error {
		failpoint.Here("host: before set password")
		if err := j.eng.SetRootPassword(ctx, j.node); err != nil {
			return err
		}
		failpoint.Here("host: after set password")
		return j.eng.VerifyRootPassword(ctx, j.node)
	})
}

// SetReadOnly is part of platform.Driver. The files come first, so that the
// guard holds over a restart in between.
func (d *Driver) SetReadOnly(ctx context.Context, want platform.Wanted, on bool) error {
	want.ReadOnly = on
	return d.withServer(ctx, want, "set read only", func(j *job) error {
		if err := j.writeFiles(); err != nil {
			return err
		}
		if err := j.eng.SetReadOnly(ctx, j.node, on); err != nil {
			return err
		}
		if _, err := j.eng.Reload(ctx, j.node); err != nil {
			return err
		}
		j.rec.ReadOnly, j.rec.Loaded = on, j.digest
		return j.save(false)
	})
}

// withServer does something with a cluster whose server must run.
func (d *Driver) withServer(ctx context.Context, want platform.Wanted, what string, do func(*job) error) error {
	u := d.unit(want.ID)
	if err := u.take(ctx); err != nil {
		return err
	}
	defer u.give()
	j, err := d.newJob(ctx, u, want, 0)
	if err == nil && (j.rec == nil || !j.m.running()) {
		err = fmt.Errorf("the server isn't running")
	}
	if err == nil {
		err = do(j)
	}
	if err != nil {
		return fmt.Errorf("cluster %d: %s: %w", want.ID, what, err)
	}
	return nil
}
