package converge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// ArchiveGapReason is what people are told when what a server wrote had to be
// dropped.
const ArchiveGapReason = "The archive couldn't be written to for too long, and what was waiting for it had to be dropped: " +
	"moments from about now until the next backup can't be restored."

// upload takes into the archive what servers have written. One database whose
// files can't be taken doesn't hold up the others.
func (k *Keeper) upload(ctx context.Context) error {
	clusters, err := k.clusters(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range clusters {
		if c.Deleted != nil || k.Driver.KeepsBackups(c) {
			continue
		}
		want, err := platform.NewWanted(c, k.Catalog, false)
		if err == nil {
			err = k.Driver.Upload(ctx, want, &archiveSink{Keeper: k, c: c})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// archiveSink takes what is archived of one database.
type archiveSink struct {
	*Keeper
	c   cluster.Cluster
	key []byte
}

// Put implements platform.ArchiveSink. Before there is a backup there is no key,
// and nothing that a file could be used with.
func (s *archiveSink) Put(ctx context.Context, archiveID, name string, r io.Reader) error {
	if s.key == nil {
		key, err := s.Store.Secret(ctx, s.c.ID, platform.BackupKey)
		if fault.IsKind(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("backup key: %w", err)
		}
		s.key = key
	}
	w := archive.Segment{Cluster: s.c.ID, ArchiveID: archiveID, Name: name}
	if err := s.Archive.PutSegment(ctx, w, s.key, r); err != nil {
		return err
	}
	// Its archive may have been removed meanwhile: nothing must come after that.
	c, err := s.Store.ClusterForWork(ctx, s.c.ID)
	if fault.IsKind(err, fault.NotFound) || err == nil && c.Deleted != nil {
		return s.Archive.DeleteSegments(ctx, w)
	}
	return err
}

// ReportGap implements platform.ArchiveSink.
func (s *archiveSink) ReportGap(ctx context.Context) error {
	s.Logger.WarnContext(ctx, "the continuous archive has a gap", "cluster_id", int64(s.c.ID))
	return s.Store.InTx(ctx, func(tx *store.Tx) error { return notify(ctx, tx, s.c, operation.ArchiveGap, ArchiveGapReason) })
}

// clockMargin is how far the clock of a bucket may be from ours.
const clockMargin = time.Hour

// prune removes archived files that no backup can be continued with any more.
func (k *Keeper) prune(ctx context.Context) error {
	clusters, err := k.Store.ClustersForWork(ctx)
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	var errs []error
	for _, c := range clusters {
		switch {
		case c.Deleted != nil:
		case k.Driver.KeepsBackups(c):
			errs = append(errs, k.pruneKept(ctx, c))
		default:
			errs = append(errs, k.pruneOne(ctx, c))
		}
	}
	return errors.Join(errs...)
}

// pruneKept has the platform prune what it keeps; not while a backup is taken, of which nobody knows yet what it needs.
func (k *Keeper) pruneKept(ctx context.Context, c cluster.Cluster) error {
	if !k.Catalog.For(c.Region, c.Engine).Backups {
		return nil
	}
	backups, err := k.Store.BackupsOf(ctx, c.ID)
	if err != nil {
		return fmt.Errorf("list the backups of database %d: %w", c.ID, err)
	}
	var keep []string
	for _, b := range backups {
		if b.State == backup.Running {
			return nil
		}
		if b.State == backup.Complete {
			keep = append(keep, b.Ref)
		}
	}
	return k.Driver.PruneBackups(ctx, c, keep)
}

// pruneOne lists the files before the backups: one that begins meanwhile needs
// only later ones.
func (k *Keeper) pruneOne(ctx context.Context, c cluster.Cluster) error {
	now := k.Now()
	all, err := k.Archive.ListSegments(ctx, c.ID)
	if err != nil || len(all) == 0 {
		return err
	}
	backups, err := k.Store.BackupsOf(ctx, c.ID)
	if err != nil {
		return fmt.Errorf("list the backups of database %d: %w", c.ID, err)
	}
	since := backup.Needs(backups, now).Add(-clockMargin)
	var old []archive.Segment
	for _, w := range all {
		if w.Modified.Before(since) && k.Driver.Prunable(c.Engine, w.Name) {
			old = append(old, w)
		}
	}
	return k.Archive.DeleteSegments(ctx, old...)
}
