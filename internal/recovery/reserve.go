package recovery

import (
	"context"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/store"
)

// ReserveIDs keeps the ids that the bucket has backups under from being given out again.
func ReserveIDs(ctx context.Context, s *store.Store, stored []archive.Stored) error {
	var c cluster.ID
	var b backup.ID
	for _, found := range stored {
		c, b = max(c, found.Cluster), max(b, found.Backup)
	}
	return s.ReserveIDs(ctx, c, b)
}
