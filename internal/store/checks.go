package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// Block is what was found of one shard over some seconds.
type Block struct {
	Shard          int
	Started, Ended time.Time
	Packed         []byte
}

// longestBlock is how much time a block covers at most; who looks for the
// results since a moment looks at blocks that began so much earlier.
const longestBlock = 15 * time.Minute

// AddBlocks keeps results.
func (t *Tx) AddBlocks(ctx context.Context, blocks []Block) error {
	var p dbsqlc.CheckBlocksAddParams
	for _, b := range blocks {
		p.Shards, p.Starts = append(p.Shards, int32(b.Shard)), append(p.Starts, b.Started)
		p.Ends, p.Packed = append(p.Ends, b.Ended), append(p.Packed, b.Packed)
	}
	return classify(t.q.CheckBlocksAdd(ctx, p))
}

// Samples are the results of a service since the moment given, oldest first.
func (q queries) Samples(ctx context.Context, id monitor.ServiceID, since time.Time) ([]monitor.Sample, error) {
	var found []monitor.Sample
	err := q.eachSample(ctx, id.Shard(), since, q.now().Add(time.Hour), func(s monitor.Sample) {
		if s.Service == id && !s.Started.Before(since) {
			found = append(found, s)
		}
	})
	slices.SortStableFunc(found, func(a, b monitor.Sample) int { return a.Started.Compare(b.Started) })
	return found, err
}

func (q queries) eachSample(ctx context.Context, shard int, since, until time.Time, each func(monitor.Sample)) error {
	rows, err := q.q.CheckBlocksOf(ctx, dbsqlc.CheckBlocksOfParams{Shard: int32(shard), Since: since.Add(-longestBlock), Until: until})
	if err != nil {
		return classify(err)
	}
	for _, r := range rows {
		if err := monitor.UnpackSamples(r.Started, r.Packed, func(s monitor.Sample) bool { each(s); return true }); err != nil {
			return fmt.Errorf("results of shard %d of %s: %w", shard, r.Started.Format(time.RFC3339), err)
		}
	}
	return nil
}

// Sum sums up the hours of a service that have been rolled up, since the one given.
func (q queries) Sum(ctx context.Context, id monitor.ServiceID, since time.Time) (monitor.Hour, error) {
	r, err := q.q.CheckHoursSum(ctx, int64(id), since)
	return monitor.Hour{
		Service: id, Hour: since, Checks: int(r.Checks), Failures: int(r.Failures),
		Total: time.Duration(r.TotalMs) * time.Millisecond, Longest: time.Duration(r.LongestMs) * time.Millisecond,
	}, classify(err)
}

// RolledUntil is the end of the last hour that was summed up.
func (q queries) RolledUntil(ctx context.Context) (time.Time, error) {
	t, err := q.q.CheckRolledUntil(ctx)
	return t, classify(err)
}

// How long results are kept: each by itself for a day, as the API shows them, and
// summed up by the hour for the thirty days that uptime is told of. Sums of days
// are kept longer (monitor.KeepCheckDays).
const (
	keepBlocks = 24 * time.Hour
	keepHours  = 31 * 24 * time.Hour
)

// UnrolledHours are the full hours of the last day that haven't been summed up.
// One ends as soon as its last blocks are sure to have been written. Those without
// results, as all of the day before the first start, are summed up herewith.
func (q queries) UnrolledHours(ctx context.Context) ([]time.Time, error) {
	last := q.now().Add(-longestBlock).Truncate(time.Hour).Add(-time.Hour)
	first := last.Add(-keepBlocks)
	if err := q.q.CheckRollupsEmpty(ctx, first, last); err != nil {
		return nil, classify(err)
	}
	hours, err := q.q.CheckHoursMissing(ctx, first, last)
	return hours, classify(err)
}

// RollUp sums up an hour and has its results take less room, unless somebody else
// has.
func (s *Store) RollUp(ctx context.Context, hour time.Time) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if n, err := tx.q.CheckRollup(ctx, hour); err != nil || n == 0 {
			return classify(err)
		}
		// Most shards of most installations have nothing.
		shards, err := tx.q.CheckShardsOf(ctx, hour.Add(-longestBlock), hour.Add(time.Hour))
		if err != nil {
			return classify(err)
		}
		for _, shard := range shards {
			if err := tx.rollUpShard(ctx, int(shard), hour); err != nil {
				return err
			}
			if err := tx.compact(ctx, int(shard), hour); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *Tx) rollUpShard(ctx context.Context, shard int, hour time.Time) error {
	sums := map[monitor.ServiceID]*monitor.Hour{}
	end := hour.Add(time.Hour)
	err := t.eachSample(ctx, shard, hour, end, func(s monitor.Sample) {
		if s.Started.Before(hour) || !s.Started.Before(end) {
			return
		}
		sum := sums[s.Service]
		if sum == nil {
			sum = &monitor.Hour{Service: s.Service, Hour: hour}
			sums[s.Service] = sum
		}
		sum.Add(s)
	})
	if err != nil || len(sums) == 0 {
		return err
	}
	p := dbsqlc.CheckHoursAddParams{Hour: hour}
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[id]
		p.Services, p.Checks = append(p.Services, int64(id)), append(p.Checks, int32(sum.Checks))
		p.Failures, p.Totals = append(p.Failures, int32(sum.Failures)), append(p.Totals, sum.Total.Milliseconds())
		p.Longests = append(p.Longests, int32(min(sum.Longest.Milliseconds(), 1<<30)))
	}
	if err := t.q.CheckHoursAdd(ctx, p); err != nil {
		return classify(err)
	}
	return classify(t.q.CheckDaysAdd(ctx, dbsqlc.CheckDaysAddParams{
		Day: dayOf(hour), Services: p.Services, Checks: p.Checks, Failures: p.Failures, Totals: p.Totals, Longests: p.Longests,
	}))
}

// dayOf is the day of a moment, UTC.
func dayOf(at time.Time) pgtype.Date {
	return pgtype.Date{Time: at.UTC().Truncate(24 * time.Hour), Valid: true}
}

// compact packs a shard's results of an hour anew: they are written every few
// seconds, and by themselves such blocks take more room than what is in them.
func (t *Tx) compact(ctx context.Context, shard int, hour time.Time) error {
	rows, err := t.q.CheckBlocksTake(ctx, dbsqlc.CheckBlocksTakeParams{Shard: int32(shard), Since: hour, Until: hour.Add(time.Hour)})
	if err != nil || len(rows) == 0 {
		return classify(err)
	}
	parts := map[time.Time][]monitor.Sample{}
	for _, r := range rows {
		if err := monitor.UnpackSamples(r.Started, r.Packed, func(s monitor.Sample) bool {
			part := s.Started.Truncate(longestBlock)
			parts[part] = append(parts[part], s)
			return true
		}); err != nil {
			return fmt.Errorf("results of shard %d of %s: %w", shard, r.Started.Format(time.RFC3339), err)
		}
	}
	blocks := make([]Block, 0, len(parts))
	for part, samples := range parts {
		b := Block{Shard: shard, Ended: part.Add(longestBlock)}
		b.Started, b.Packed = monitor.PackSamples(samples)
		blocks = append(blocks, b)
	}
	return t.AddBlocks(ctx, blocks)
}

// partitionLock is the class of the advisory lock under which partitions come and go.
const partitionLock = 7006

// KeepPartitions makes the partitions of today and tomorrow, and drops those of
// which all is older than what is kept.
func (s *Store) KeepPartitions(ctx context.Context) error {
	return s.InTx(ctx, func(tx *Tx) error {
		if err := tx.q.AccountLock(ctx, partitionLock<<40); err != nil {
			return classify(err)
		}
		now := tx.now().UTC()
		for table, keep := range map[string]time.Duration{"check_blocks": keepBlocks + longestBlock + 2*time.Hour, "check_hours": keepHours} {
			if err := tx.keepPartitions(ctx, table, now, keep); err != nil {
				return fmt.Errorf("partitions of %s: %w", table, err)
			}
		}
		if err := tx.q.CheckDaysForget(ctx, dayOf(now.Add(-monitor.KeepCheckDays*24*time.Hour))); err != nil {
			return classify(err)
		}
		return classify(tx.q.CheckRollupsForget(ctx, now.Add(-keepHours)))
	})
}

const partitionDay = "20060102"

func (t *Tx) keepPartitions(ctx context.Context, table string, now time.Time, keep time.Duration) error {
	if err := t.makePartitions(ctx, table, now); err != nil {
		return err
	}
	return t.dropPartitions(ctx, table, now, keep)
}

// makePartitions makes those of yesterday, today and tomorrow.
func (t *Tx) makePartitions(ctx context.Context, table string, now time.Time) error {
	day := now.Truncate(24 * time.Hour)
	for d := day.Add(-24 * time.Hour); !d.After(day.Add(24 * time.Hour)); d = d.Add(24 * time.Hour) {
		sql := fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s_%s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')",
			table, d.Format(partitionDay), table, d.Format(time.RFC3339), d.Add(24*time.Hour).Format(time.RFC3339))
		if _, err := t.db.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// dropPartitions drops those of which all is older than what is kept.
func (t *Tx) dropPartitions(ctx context.Context, table string, now time.Time, keep time.Duration) error {
	rows, err := t.db.Query(ctx, "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = $1::regclass", table)
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		d, err := time.Parse(table+"_"+partitionDay, name)
		if err != nil || d.Add(24*time.Hour).After(now.Add(-keep)) {
			continue
		}
		if _, err := t.db.Exec(ctx, "DROP TABLE "+name); err != nil {
			return err
		}
	}
	return nil
}
