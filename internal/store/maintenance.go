package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/store/dbsqlc"
)

// maintenanceLock is the class of the advisory lock that serialises the beginning
// of maintenance, so that all servers together keep to its bound.
const maintenanceLock = 7002

// RecordTasks keeps what waits for a cluster's window. Nothing is written when
// nothing changed.
func (q queries) RecordTasks(ctx context.Context, id cluster.ID, tasks []cluster.Task) error {
	text, err := encodeTasks(tasks)
	if err != nil {
		return err
	}
	return classify(q.q.ClusterTasks(ctx, text, int64(id)))
}

// RecordTasksOf is RecordTasks of c as it was when the tasks were looked for; ErrStale when it changed since: what was found may be done by now.
func (q queries) RecordTasksOf(ctx context.Context, c cluster.Cluster, tasks []cluster.Task) error {
	text, err := encodeTasks(tasks)
	if err != nil {
		return err
	}
	n, err := q.q.ClusterTasksFound(ctx, dbsqlc.ClusterTasksFoundParams{Tasks: text, ID: int64(c.ID), Generation: c.Generation})
	if err == nil && n == 0 {
		return ErrStale
	}
	return classify(err)
}

func encodeTasks(tasks []cluster.Task) ([]byte, error) {
	if tasks == nil {
		tasks = []cluster.Task{}
	}
	text, err := json.Marshal(tasks)
	if err != nil {
		return nil, fmt.Errorf("encode tasks: %w", err)
	}
	return text, nil
}

// RecordAnnounced notes that the work of the window that opens at start was told
// of; false when it had been.
func (t *Tx) RecordAnnounced(ctx context.Context, id cluster.ID, start time.Time) (bool, error) {
	n, err := t.q.WindowAnnounced(ctx, start, int64(id))
	return n > 0, classify(err)
}

// RecordBegun notes that work is begun in the window that opens at start; false
// when it was, or in a later one.
func (t *Tx) RecordBegun(ctx context.Context, id cluster.ID, start time.Time) (bool, error) {
	n, err := t.q.WindowBegun(ctx, start, int64(id))
	return n > 0, classify(err)
}

// MaintenanceRunning counts the databases whose window's work is going on. Nobody
// else begins any before the transaction ends.
func (t *Tx) MaintenanceRunning(ctx context.Context) (int, error) {
	if err := t.q.MaintenanceLock(ctx, maintenanceLock); err != nil {
		return 0, fmt.Errorf("wait for others that begin maintenance: %w", err)
	}
	n, err := t.q.MaintenanceRunning(ctx)
	return int(n), classify(err)
}

// ClustersWithTasks are those that the viewer sees and that wait for their windows.
func (q queries) ClustersWithTasks(ctx context.Context, v Viewer) ([]cluster.Cluster, error) {
	b := sqlBuilder{}
	return collect(ctx, q.db, scanCluster, selectCluster+" FROM clusters WHERE "+b.visible(v)+" AND tasks <> '[]' ORDER BY id", b.args...)
}
