package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/account"
	"steward/internal/monitor"
)

// addPoints writes many at once, which sqlc has no word for. Several servers may
// have measured the same point: the one counts that did for longer. A machine
// may be gone by now.
const addPoints = `INSERT INTO compute_points (compute_id, at, cpu, disk, swap, net_in, net_out, covered)
SELECT p.* FROM unnest($1::bigint[], $2::timestamptz[], $3::float8[], $4::float8[], $5::float8[], $6::float8[], $7::float8[], $8::float8[])
	AS p (compute_id, at, cpu, disk, swap, net_in, net_out, covered)
WHERE EXISTS (SELECT 1 FROM computes c WHERE c.id = p.compute_id)
ORDER BY p.compute_id, p.at
ON CONFLICT ON CONSTRAINT compute_points_pkey DO UPDATE SET cpu = excluded.cpu, disk = excluded.disk, swap = excluded.swap,
	net_in = excluded.net_in, net_out = excluded.net_out, covered = excluded.covered
WHERE excluded.covered > compute_points.covered`

// AddPoints keeps points of machines; one that is there already stays, unless
// the new one was measured for longer.
func (q queries) AddPoints(ctx context.Context, points []monitor.Point) error {
	ids, ats, covered := make([]int64, len(points)), make([]time.Time, len(points)), make([]float64, len(points))
	var cpu, disk, swap, in, out []*float64
	for i, p := range points {
		ids[i], ats[i], covered[i] = int64(p.Machine), p.At, p.Covered.Seconds()
		cpu, disk, swap, in, out = append(cpu, p.CPU), append(disk, p.Disk), append(swap, p.Swap), append(in, p.NetIn), append(out, p.NetOut)
	}
	_, err := q.db.Exec(ctx, addPoints, ids, ats, cpu, disk, swap, in, out, covered)
	return classify(err)
}

// DropPoints forgets points before a time.
func (q queries) DropPoints(ctx context.Context, before time.Time) error {
	return classify(q.q.PointsDrop(ctx, before))
}

// sumPoints adds in the order of the machines' ids, since the last digit of a
// sum depends on it.
const sumPoints = `SELECT p.at, sum(p.cpu ORDER BY p.compute_id), sum(p.disk ORDER BY p.compute_id), sum(p.swap ORDER BY p.compute_id),
	sum(p.net_in ORDER BY p.compute_id), sum(p.net_out ORDER BY p.compute_id)
FROM compute_points p JOIN computes c ON c.id = p.compute_id
WHERE c.account_id = $1 AND p.at > $2 GROUP BY p.at ORDER BY p.at`

// PointSums are the account's points after a time, each the sum over the machines
// that have it; their Machine is 0.
func (q queries) PointSums(ctx context.Context, of account.ID, after time.Time) ([]monitor.Point, error) {
	rows, err := q.db.Query(ctx, sumPoints, int64(of), after)
	if err != nil {
		return nil, classify(err)
	}
	sums, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (monitor.Point, error) {
		var p monitor.Point
		return p, row.Scan(&p.At, &p.CPU, &p.Disk, &p.Swap, &p.NetIn, &p.NetOut)
	})
	return sums, classify(err)
}
