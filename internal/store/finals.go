package store

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
)

// SetFinalUntil keeps the last backup of a deleted cluster until a moment, for its owner.
func (t *Tx) SetFinalUntil(ctx context.Context, id cluster.ID, until time.Time) error {
	return classify(t.q.ClusterFinalUntil(ctx, until, int64(id)))
}

// FinalSource is a deleted cluster of an account whose last backup is kept until later than a moment.
func (q queries) FinalSource(ctx context.Context, of account.ID, id cluster.ID, now time.Time) (cluster.Cluster, error) {
	return q.oneCluster(ctx, selectCluster+" FROM clusters WHERE id = $1 AND account_id = $2 AND deleted IS NOT NULL AND final_until > $3", int64(id), int64(of), now)
}

// FinalSources are all of those of an account, the last that was deleted first.
func (q queries) FinalSources(ctx context.Context, of account.ID, now time.Time) ([]cluster.Cluster, error) {
	return collect(ctx, q.db, scanCluster, selectCluster+" FROM clusters WHERE account_id = $1 AND deleted IS NOT NULL AND final_until > $2 ORDER BY deleted DESC, id DESC", int64(of), now)
}

// FinalBackup is the newest complete backup of a cluster; false without any.
func (q queries) FinalBackup(ctx context.Context, of cluster.ID) (backup.Backup, bool, error) {
	all, err := q.BackupsOf(ctx, of)
	if err != nil {
		return backup.Backup{}, false, err
	}
	good := backup.ForkFrom(all, nil)
	if len(good) == 0 {
		return backup.Backup{}, false, nil
	}
	return good[0], true, nil
}
