package control

import (
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/store"
)

// RestoreWindows are the times from which a database can be restored, or forked, oldest first.
func (s *Backups) RestoreWindows(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) ([]backup.Window, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return nil, err
	}
	all, err := s.Store.BackupsOf(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("list the backups of database %d: %w", id, err)
	}
	restores, gaps, err := s.Store.Breaks(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("look for what breaks the history of database %d: %w", id, err)
	}
	return backup.Windows(all, s.continuous(c), restores, gaps, s.Now()), nil
}

// NewestRestore is the newest moment, to the minute where it moves on by itself, from which a database can be
// restored; nil without a backup. It is what RestoreWindows ends with, but for a gap or a restore since the newest
// backup.
func (s *Clusters) NewestRestore(c cluster.Cluster) *time.Time {
	if c.NewestBackup == nil || !s.continuous(c) {
		return c.NewestBackup
	}
	archived := s.Now().Add(-backup.ArchiveDelay).Truncate(time.Minute)
	if archived.Before(*c.NewestBackup) {
		return c.NewestBackup
	}
	return &archived
}
