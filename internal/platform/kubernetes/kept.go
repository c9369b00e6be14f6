package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/platform"
)

// beginTime is how long an operator may take to begin a backup; CloudNativePG 1.30 looks again after half a minute when a Pod isn't ready.
const beginTime = 5 * time.Minute

// KeepsBackups implements platform.BackupKeeper: none is in steward's archive.
func (d *Driver) KeepsBackups(cluster.Cluster) bool { return true }

func (n names) backup(id backup.ID) string { return fmt.Sprintf("%s-b%d", n.base(), id) }

// TakeBackup implements platform.BackupKeeper.
func (d *Driver) TakeBackup(ctx context.Context, want platform.Wanted, id backup.ID, from cluster.Role) (platform.Kept, error) {
	kept, err := d.takeBackup(ctx, want, id, from)
	if err != nil {
		return kept, fmt.Errorf("backup %d of cluster %d: %w", id, want.ID, err)
	}
	return kept, nil
}

func (d *Driver) takeBackup(ctx context.Context, want platform.Wanted, id backup.ID, from cluster.Role) (platform.Kept, error) {
	op, err := d.keeperOf(want.Engine)
	if err != nil {
		return platform.Kept{}, err
	}
	store, err := d.store(ctx)
	if err != nil {
		return platform.Kept{}, err
	}
	defer store.Close()
	v, err := d.look(ctx, d.live, want.ID)
	switch {
	case err != nil:
		return platform.Kept{}, err
	case v.object == nil:
		return platform.Kept{}, errors.New("the cluster's object is gone")
	case foreign(v.object, want.Cluster):
		return platform.Kept{}, errForeign(v.object)
	}
	return op.take(ctx, store, want, v, id, from)
}

// keeperOf is the operator of an engine's servers, if their backups are kept in the region.
func (d *Driver) keeperOf(e cluster.Engine) (operator, error) {
	op := d.operatorOf(e)
	if op == nil || !d.o.keepsBackups() || op.lacks().Backups {
		return nil, errNoStore
	}
	return op, nil
}

// DropBackup implements platform.BackupKeeper. No operator removes anything of a backup whose object is deleted.
func (d *Driver) DropBackup(ctx context.Context, of cluster.Cluster, id backup.ID, ref string) error {
	n := d.names(of.ID)
	op := d.operatorOf(of.Engine)
	if op == nil {
		return errNoStore
	}
	there := op.asked()
	err := d.live.Get(ctx, n.key(n.backup(id)), there)
	if unlessGone(err) != nil {
		return fmt.Errorf("read %s: %w", n.backup(id), err)
	}
	if ref != "" {
		if err := d.dropFiles(ctx, op, of, ref); err != nil {
			return fmt.Errorf("remove backup %d of cluster %d: %w", id, of.ID, err)
		}
		failpoint.Here("kubernetes: after a backup's files are removed")
	}
	if err == nil {
		if err := d.drop(ctx, there); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) dropFiles(ctx context.Context, op operator, of cluster.Cluster, text string) error {
	ref, err := parseReference(text, of)
	if err != nil {
		return err
	}
	store, err := d.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return op.dropFiles(ctx, store, ref)
}

// DropBackups implements platform.BackupKeeper.
func (d *Driver) DropBackups(ctx context.Context, of cluster.Cluster) error {
	store, err := d.store(ctx)
	if errors.Is(err, errNoStore) {
		return nil // and never was, or the operator of this server has taken it away with what is in it
	}
	if err != nil {
		return err
	}
	defer store.Close()
	archives, err := store.Servers(ctx, archivePrefix(of))
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := store.DropServer(ctx, a); err != nil {
			return fmt.Errorf("remove %s: %w", a, err)
		}
		failpoint.Here("kubernetes: after an archive is removed")
	}
	return nil
}

const (
	// straySince is how old something in the bucket is before it can be what a backup has left that failed.
	straySince = 24 * time.Hour
	// clockMargin is how far a bucket's clock may be from ours.
	clockMargin = time.Hour
)

// PruneBackups implements platform.BackupKeeper.
func (d *Driver) PruneBackups(ctx context.Context, of cluster.Cluster, keep []string) error {
	op, err := d.keeperOf(of.Engine)
	if err != nil {
		return err
	}
	store, err := d.store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	var all []reference
	for _, text := range keep {
		r, err := parseReference(text, of)
		if err != nil {
			return err
		}
		all = append(all, r)
	}
	return op.prune(ctx, store, of, all)
}
