package memplatform

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// kept is a backup that the world keeps.
type kept struct {
	of      cluster.ID
	id      backup.ID
	content Content
}

func refOf(id backup.ID) string { return fmt.Sprintf("kept-%d", id) }

// Kept are the references of a cluster's backups that the world keeps, where Options.Keeps.
func (w *World) Kept(of cluster.ID) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var refs []string
	for _, ref := range slices.Sorted(maps.Keys(w.kept)) {
		if w.kept[ref].of == of {
			refs = append(refs, ref)
		}
	}
	return refs
}

// KeepsBackups implements platform.BackupKeeper.
func (d *Driver) KeepsBackups(cluster.Cluster) bool { return d.o.Keeps }

// TakeBackup implements platform.BackupKeeper.
func (d *Driver) TakeBackup(ctx context.Context, want platform.Wanted, id backup.ID, from cluster.Role) (platform.Kept, error) {
	made := platform.Kept{Ref: refOf(id), StoredBytes: 1 << 10}
	err := d.faults.around(ctx, StepBackup, want.ID, func() error {
		c, ok := d.world.Cluster(want.ID)
		if !ok || !c.serves() {
			return fmt.Errorf("cluster %d: server doesn't answer", want.ID)
		}
		content := c.content()
		content.Node = from
		made.Bytes, made.Installation = c.UsedBytes, c.Installation
		d.world.mu.Lock()
		defer d.world.mu.Unlock()
		if d.world.kept == nil {
			d.world.kept = map[string]kept{}
		}
		d.world.kept[made.Ref] = kept{want.ID, id, content}
		return nil
	})
	return made, err
}

func (w *World) keptAs(ref string) (Content, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.kept[ref]
	if !ok {
		return Content{}, fmt.Errorf("%w: there is no backup %q", platform.ErrRestoreFails, ref)
	}
	return k.content, nil
}

// RestoreKept implements platform.BackupKeeper. The accounts' passwords are today's, as an operator sets them.
func (d *Driver) RestoreKept(ctx context.Context, want platform.Wanted, from platform.KeptSource, placing func() error) (reached time.Time, err error) {
	content, err := d.world.keptAs(from.Ref)
	if err != nil {
		return reached, err
	}
	if from.Until != nil {
		reached = *from.Until
	}
	if c, ok := d.world.Cluster(want.ID); ok && c.Token == from.Token {
		return reached, nil // it is what it was restored to, and more
	}
	if err := placing(); err != nil {
		return reached, err
	}
	return reached, d.faults.around(ctx, StepSwap, want.ID, func() error {
		if err := d.files(ctx, want); err != nil {
			return err
		}
		return d.change(want.ID, func(c *Cluster) {
			c.Aside, c.Undone = new(c.content()), false
			c.Data, c.Installation, c.Token = content.Data, content.Installation, from.Token
			c.Running, c.Bootstrapped, c.Routed, c.Recovered = false, true, false, from.Until
		})
	})
}

// ForkKept implements platform.BackupKeeper.
func (d *Driver) ForkKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) (reached time.Time, err error) {
	content, err := d.world.keptAs(from.Ref)
	if err != nil {
		return reached, err
	}
	if from.Until != nil {
		reached = *from.Until
	}
	return reached, d.faults.around(ctx, StepSwap, want.ID, func() error {
		if err := d.files(ctx, want); err != nil {
			return err
		}
		err := d.change(want.ID, func(c *Cluster) {
			c.Data, c.Installation, c.Running, c.Bootstrapped = content.Data, content.Installation, true, false
		})
		if err != nil {
			return err
		}
		return d.bootstrap(ctx, want)
	})
}

// VerifyKept implements platform.BackupKeeper.
func (d *Driver) VerifyKept(ctx context.Context, want platform.Wanted, from platform.KeptSource) error {
	return d.faults.around(ctx, StepVerify, want.ID, func() error {
		_, err := d.world.keptAs(from.Ref)
		return err
	})
}

// DropBackup implements platform.BackupKeeper.
func (d *Driver) DropBackup(ctx context.Context, of cluster.Cluster, id backup.ID, _ string) error {
	return d.faults.around(ctx, StepDrop, of.ID, func() error {
		d.world.drop(func(k kept) bool { return k.of == of.ID && k.id == id })
		return nil
	})
}

// DropBackups implements platform.BackupKeeper.
func (d *Driver) DropBackups(ctx context.Context, of cluster.Cluster) error {
	return d.faults.around(ctx, StepDrop, of.ID, func() error {
		d.world.drop(func(k kept) bool { return k.of == of.ID })
		return nil
	})
}

// PruneBackups implements platform.BackupKeeper.
func (d *Driver) PruneBackups(_ context.Context, of cluster.Cluster, keep []string) error {
	d.world.drop(func(k kept) bool { return k.of == of.ID && !slices.Contains(keep, refOf(k.id)) })
	return nil
}

func (w *World) drop(which func(kept) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.kept, func(_ string, k kept) bool { return which(k) })
}
