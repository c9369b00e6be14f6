package host

import (
	"context"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform"
)

// SetPassword is part of platform.Driver. Accounts of the MySQL family belong to
// a node, so each is told; PostgreSQL's replicas learn it from their primary.
func (d *Driver) SetPassword(ctx context.Context, want platform.Wanted) error {
	u := d.unit(want.ID)
	password, err := keychain{d: d, u: u}.secret(ctx, platform.RootPassword)
	if err != nil {
		return fmt.Errorf("cluster %d: set password: %w", want.ID, err)
	}
	return d.withServers(ctx, want, "set password", func(j *job) error {
		j.node.RootPassword = string(password)
		failpoint.Here("host: before set password")
		if err := j.eng.SetRootPassword(ctx, j.node); err != nil {
			return err
		}
		failpoint.Here("host: after set password")
		if j.node.Role == cluster.Replica {
			return nil
		}
		return j.eng.VerifyRootPassword(ctx, j.node)
	})
}

// SetReadOnly is part of platform.Driver. The files come first, so that the
// guard holds over a restart in between. Replicas take no writes anyway; they
// keep it for the day they are primary.
func (d *Driver) SetReadOnly(ctx context.Context, want platform.Wanted, on bool) error {
	want.ReadOnly = on
	return d.withServers(ctx, want, "set read only", func(j *job) error {
		if err := j.writeFiles(); err != nil {
			return err
		}
		if j.node.Role == cluster.Primary {
			if err := j.eng.SetReadOnly(ctx, j.node, on); err != nil {
				return err
			}
		}
		if _, err := j.eng.Reload(ctx, j.node); err != nil {
			return err
		}
		j.rec.ReadOnly, j.rec.Loaded = on, j.digest
		return j.save(false)
	})
}

// withServers does something with each server of a cluster, the primary's
// first. All have to run.
func (d *Driver) withServers(ctx context.Context, want platform.Wanted, what string, do func(*job) error) error {
	u := d.unit(want.ID)
	if err := d.recall(ctx, u, want.Encrypted, max(1, want.Size)); err != nil {
		return fmt.Errorf("cluster %d: %s: %w", want.ID, what, err)
	}
	ctx, give, err := u.occupy(ctx)
	if err != nil {
		return err
	}
	defer give()
	if err := d.eachServer(ctx, u, want, do); err != nil {
		return fmt.Errorf("cluster %d: %s: %w", want.ID, what, err)
	}
	return nil
}

func (d *Driver) eachServer(ctx context.Context, u *unit, want platform.Wanted, do func(*job) error) error {
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	for _, ordinal := range append([]int{top.Primary}, top.replicas()...) {
		j, err := d.newJob(ctx, u, want, top, ordinal)
		if err != nil {
			return err
		}
		if j.rec == nil || !j.m.running() {
			return fmt.Errorf("node %d: %w", ordinal, errNoServer)
		}
		if err := do(j); err != nil {
			return fmt.Errorf("node %d: %w", ordinal, err)
		}
	}
	return nil
}
