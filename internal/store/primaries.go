package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/cluster"
	"steward/internal/operation"
)

// PrimaryChanges is one page of the events that tell of changes of a cluster's primary, newest
// first, and how many there are. Whether the cluster may be seen is the caller's to know.
func (q queries) PrimaryChanges(ctx context.Context, id cluster.ID, page Page) ([]operation.Operation, int, error) {
	l := listing[operation.Operation]{what: selectOperation, own: "id DESC", scan: scanOperation}
	l.from = "operations WHERE cluster_id = " + l.arg(int64(id)) + " AND action = " + l.arg(string(operation.Failover))
	return l.page(ctx, q.db, ListQuery{Page: page})
}

// NodesChanged are the events by which the roles of a cluster's nodes came about, newest first:
// changes of the primary, and of the number of nodes. They are those of the last hundred.
func (q queries) NodesChanged(ctx context.Context, id cluster.ID) ([]operation.Operation, error) {
	return collect(ctx, q.db, scanOperation, selectOperation+` FROM operations WHERE cluster_id = $1 AND (action = $2
		OR action = $3 AND status = $4 AND params ? 'before') ORDER BY id DESC LIMIT 100`,
		int64(id), string(operation.Failover), string(operation.Resize), string(operation.Finished))
}

// Breaks are when a cluster's data was replaced by a restore or an upgrade, or that was undone, and when its archive was found
// to have a gap.
func (q queries) Breaks(ctx context.Context, id cluster.ID) (restores, gaps []time.Time, err error) {
	rows, err := q.db.Query(ctx, `SELECT created, action = $2 FROM operations WHERE cluster_id = $1
		AND (action = $2 OR action IN ($3, $4, $5) AND params ->> 'touched' = 'true')`,
		int64(id), string(operation.ArchiveGap), string(operation.Restore), string(operation.RestoreUndo), string(operation.Upgrade))
	if err != nil {
		return nil, nil, classify(err)
	}
	var at time.Time
	var gap bool
	_, err = pgx.ForEachRow(rows, []any{&at, &gap}, func() error {
		if gap {
			gaps = append(gaps, at)
		} else {
			restores = append(restores, at)
		}
		return nil
	})
	return restores, gaps, classify(err)
}
