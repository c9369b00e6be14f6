package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/filter"
)

// usageKept is how long usage is kept: as long as measurements are.
const usageKept = 400 * 24 * time.Hour

// Usage is what a database was on a day, UTC, while it had one type and one number of nodes.
type Usage struct {
	Account account.ID
	Cluster cluster.ID
	Label   string
	// Engine is family and series, such as postgresql/15.
	Engine string
	Day    time.Time
	Type   string
	Size   int
	// Running and Suspended are for how long it was there.
	Running, Suspended time.Duration
	// UsedBytes and BackupBytes are the most that data and backups took.
	UsedBytes, BackupBytes int64
}

// UsageFields are what usage can be filtered and ordered by; a day is text such as 2026-01-31.
var UsageFields = filter.Fields{"day": filter.Text, "database_id": filter.Number, "label": filter.Text, "type": filter.Text}

var usageColumns = columns{"day": "day::text", "database_id": "cluster_id", "label": "label", "type": "type"}

// Usage is a page of an account's usage, newest day first, and how many entries match.
func (q queries) Usage(ctx context.Context, of account.ID, list ListQuery) ([]Usage, int, error) {
	l := listing[Usage]{
		sqlBuilder: sqlBuilder{columns: usageColumns, key: "cluster_id"},
		what:       "SELECT account_id, cluster_id, label, engine, day, type, size, running, suspended, used_bytes, backup_bytes",
		own:        "day DESC, cluster_id, type, size", scan: scanUsage,
	}
	l.from = "usage WHERE account_id = " + l.arg(int64(of))
	return l.page(ctx, q.db, list)
}

func scanUsage(row pgx.Row, more ...any) (u Usage, err error) {
	var size int32
	var running, suspended float64
	err = row.Scan(append([]any{&u.Account, &u.Cluster, &u.Label, &u.Engine, &u.Day, &u.Type, &size, &running, &suspended, &u.UsedBytes, &u.BackupBytes}, more...)...)
	u.Size, u.Running, u.Suspended = int(size), time.Duration(running*1e9), time.Duration(suspended*1e9)
	return u, err
}

// CountUsage counts the usage of all databases up to now, but of those that are just being changed: whoever changes one
// counts it.
func (q queries) CountUsage(ctx context.Context) error {
	if err := q.q.UsageCount(ctx, q.now(), 0); err != nil {
		return classify(err)
	}
	return classify(q.q.UsageExpire(ctx, q.now().Add(-usageKept)))
}

// countUsageOf counts what a database was so far, before it becomes something else.
func (t *Tx) countUsageOf(ctx context.Context, id cluster.ID) error {
	return classify(t.q.UsageCount(ctx, t.now(), int64(id)))
}
