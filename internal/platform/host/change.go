package host

import (
	"context"
	"fmt"

	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform"
)

// SetPassword implements platform.Driver. Accounts of the MySQL family belong to
// a node, so each is told; PostgreSQL's replicas learn it from their primary.
func (d *Driver) SetPassword(ctx context.Context, want platform.Wanted) error {
	cs := d.clusterState(want.ID)
	password, err := d.keychain(cs).secret(ctx, platform.RootPassword)
	if err != nil {
		return fmt.Errorf("cluster %d: set password: %w", want.ID, err)
	}
	err = d.withServers(ctx, want, "set password", wokenForPassword, func(nr *nodeReconciler) error {
		nr.node.RootPassword = string(password)
		failpoint.Here("host: before set password")
		if err := nr.eng.SetRootPassword(ctx, nr.node); err != nil {
			return err
		}
		failpoint.Here("host: after set password")
		if nr.node.Role == cluster.Replica {
			return nil
		}
		return nr.eng.VerifyRootPassword(ctx, nr.node)
	})
	if err == nil {
		err = d.syncUsers(ctx, cs)
	}
	return err
}

// SetReadOnly implements platform.Driver. The files come first, so that the
// guard holds over a restart in between. Replicas take no writes anyway; they
// keep it for the day they are primary.
func (d *Driver) SetReadOnly(ctx context.Context, want platform.Wanted, on bool) error {
	want.ReadOnly = on
	return d.withServers(ctx, want, "set read only", wokenForDisk, func(nr *nodeReconciler) error {
		if err := nr.writeFiles(); err != nil {
			return err
		}
		if nr.node.Role == cluster.Primary {
			if err := nr.eng.SetReadOnly(ctx, nr.node, on); err != nil {
				return err
			}
		}
		if _, err := nr.eng.Reload(ctx, nr.node); err != nil {
			return err
		}
		nr.rec.ReadOnly, nr.rec.Loaded = on, nr.digest
		return nr.save(false)
	})
}

// withServers does something with each server of a cluster, the primary's
// first. All have to run.
func (d *Driver) withServers(ctx context.Context, want platform.Wanted, what, why string, do func(*nodeReconciler) error) error {
	cs := d.clusterState(want.ID)
	if err := d.cacheSecrets(ctx, cs, want.Encrypted, max(1, want.Size)); err != nil {
		return fmt.Errorf("cluster %d: %s: %w", want.ID, what, err)
	}
	done, err := d.use(ctx, cs, why)
	if err != nil {
		return err
	}
	defer done()
	ctx, unlock, err := cs.acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.eachServer(ctx, cs, want, do); err != nil {
		return fmt.Errorf("cluster %d: %s: %w", want.ID, what, err)
	}
	return nil
}

func (d *Driver) eachServer(ctx context.Context, cs *clusterState, want platform.Wanted, do func(*nodeReconciler) error) error {
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	for _, ordinal := range append([]int{top.Primary}, top.Replicas()...) {
		nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, ordinal)
		if err != nil {
			return err
		}
		if nr.rec == nil || !nr.ns.running() {
			return fmt.Errorf("node %d: %w", ordinal, errNoServer)
		}
		if err := do(nr); err != nil {
			return fmt.Errorf("node %d: %w", ordinal, err)
		}
	}
	return nil
}
