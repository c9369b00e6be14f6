package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/store/dbsqlc"
)

// Slice is what was measured of a node over measure.Slice, packed by measure.PackSlice.
type Slice struct {
	Cluster cluster.ID
	Node    int
	Started time.Time
	Packed  []byte
}

// slicePoints is how many steps a slice has.
const slicePoints = int(measure.Slice / measure.Every)

// AddSlices keeps slices; those that are too old by now to be of use aren't.
func (q queries) AddSlices(ctx context.Context, all []Slice) error {
	oldest := q.now().Add(-measure.Fine.Block * 24)
	var p dbsqlc.SlicesAddParams
	for _, s := range all {
		if s.Started.Before(oldest) {
			continue
		}
		p.Clusters, p.Starts = append(p.Clusters, int64(s.Cluster)), append(p.Starts, s.Started)
		p.Nodes, p.Packed = append(p.Nodes, int16(s.Node)), append(p.Packed, s.Packed)
	}
	if len(p.Packed) == 0 {
		return nil
	}
	return classify(q.q.SlicesAdd(ctx, p))
}

// packedSeries is a row of a tier.
type packedSeries struct {
	started      time.Time
	metric, node int16
	packed       []byte
}

// tierTable is where a tier is.
type tierTable struct {
	measure.Tier
	table string
	read  func(ctx context.Context, q queries, id cluster.ID, metrics []int16, since, until time.Time) ([]packedSeries, error)
	save  func(ctx context.Context, q queries, id cluster.ID, started time.Time, series []packedSeries) error
	// clusters are those that have anything in a time; nil for the last.
	clusters func(ctx context.Context, q queries, since, until time.Time) ([]int64, error)
}

func (t tierTable) seconds() int32 { return int32(t.Step / time.Second) }

var (
	fine = tierTable{
		Tier: measure.Fine, table: "measured_fine",
		read: func(ctx context.Context, q queries, id cluster.ID, metrics []int16, since, until time.Time) ([]packedSeries, error) {
			rows, err := q.q.FineOf(ctx, dbsqlc.FineOfParams{ClusterID: int64(id), Metrics: metrics, Since: since, Until: until})
			return rowsOf(rows, err, func(r dbsqlc.FineOfRow) packedSeries { return packedSeries{r.Started, r.Metric, r.Node, r.Packed} })
		},
		save: func(ctx context.Context, q queries, id cluster.ID, started time.Time, series []packedSeries) error {
			metrics, nodes, packed := columnsOf(series)
			return q.q.FineSave(ctx, dbsqlc.FineSaveParams{ClusterID: int64(id), Started: started, Metrics: metrics, Nodes: nodes, Packed: packed})
		},
		clusters: func(ctx context.Context, q queries, since, until time.Time) ([]int64, error) {
			return q.q.FineClusters(ctx, since, until)
		},
	}
	medium = tierTable{
		Tier: measure.Medium, table: "measured_medium",
		read: func(ctx context.Context, q queries, id cluster.ID, metrics []int16, since, until time.Time) ([]packedSeries, error) {
			rows, err := q.q.MediumOf(ctx, dbsqlc.MediumOfParams{ClusterID: int64(id), Metrics: metrics, Since: since, Until: until})
			return rowsOf(rows, err, func(r dbsqlc.MediumOfRow) packedSeries { return packedSeries{r.Started, r.Metric, r.Node, r.Packed} })
		},
		save: func(ctx context.Context, q queries, id cluster.ID, started time.Time, series []packedSeries) error {
			metrics, nodes, packed := columnsOf(series)
			return q.q.MediumSave(ctx, dbsqlc.MediumSaveParams{ClusterID: int64(id), Started: started, Metrics: metrics, Nodes: nodes, Packed: packed})
		},
		clusters: func(ctx context.Context, q queries, since, until time.Time) ([]int64, error) {
			return q.q.MediumClusters(ctx, since, until)
		},
	}
	coarse = tierTable{
		Tier: measure.Coarse, table: "measured_coarse",
		read: func(ctx context.Context, q queries, id cluster.ID, metrics []int16, since, until time.Time) ([]packedSeries, error) {
			rows, err := q.q.CoarseOf(ctx, dbsqlc.CoarseOfParams{ClusterID: int64(id), Metrics: metrics, Since: since, Until: until})
			return rowsOf(rows, err, func(r dbsqlc.CoarseOfRow) packedSeries { return packedSeries{r.Started, r.Metric, r.Node, r.Packed} })
		},
		save: func(ctx context.Context, q queries, id cluster.ID, started time.Time, series []packedSeries) error {
			metrics, nodes, packed := columnsOf(series)
			return q.q.CoarseSave(ctx, dbsqlc.CoarseSaveParams{ClusterID: int64(id), Started: started, Metrics: metrics, Nodes: nodes, Packed: packed})
		},
	}
)

func rowsOf[R any](rows []R, err error, one func(R) packedSeries) ([]packedSeries, error) {
	all := make([]packedSeries, len(rows))
	for i, r := range rows {
		all[i] = one(r)
	}
	return all, err
}

func columnsOf(series []packedSeries) (metrics, nodes []int16, packed [][]byte) {
	for _, s := range series {
		metrics, nodes, packed = append(metrics, s.metric), append(nodes, s.node), append(packed, s.packed)
	}
	return metrics, nodes, packed
}

// addTier adds to b what a tier has of a cluster in [from, to).
func (q queries) addTier(ctx context.Context, t tierTable, b *measure.Builder, id cluster.ID, metrics []int16, from, to time.Time) error {
	if !from.Before(to) {
		return nil
	}
	rows, err := t.read(ctx, q, id, metrics, t.Start(from), to)
	if err != nil {
		return classify(err)
	}
	for _, r := range rows {
		points, err := measure.Unpack(r.packed, t.Points())
		if err != nil {
			return fmt.Errorf("%s of cluster %d, node %d, metric %d, %s: %w", t.table, id, r.node, r.metric, r.started.Format(time.RFC3339), err)
		}
		key := measure.Key{Cluster: id, Node: int(r.node), Metric: measure.Metric(r.metric)}
		b.Add(measure.Series{Key: key, Start: r.started.UTC(), Step: t.Step, Points: points}, from, to)
	}
	return nil
}

// addSlice adds a slice to b.
func addSlice(b *measure.Builder, id cluster.ID, node int16, started time.Time, packed []byte, wanted func(measure.Metric) bool, from, to time.Time) error {
	err := measure.UnpackSlice(packed, slicePoints, func(m measure.Metric, points []measure.Point) {
		if wanted(m) {
			key := measure.Key{Cluster: id, Node: int(node), Metric: m}
			b.Add(measure.Series{Key: key, Start: started.UTC(), Step: measure.Every, Points: points}, from, to)
		}
	})
	if err != nil {
		return fmt.Errorf("slice of cluster %d, node %d, %s: %w", id, node, started.Format(time.RFC3339), err)
	}
	return nil
}

// AddMeasurements adds to b what is kept of some metrics of a cluster: for each time from the coarsest tier that has it and
// whose steps the range's are made of.
func (q queries) AddMeasurements(ctx context.Context, b *measure.Builder, id cluster.ID, metrics []measure.Metric) error {
	numbers := make([]int16, len(metrics))
	for i, m := range metrics {
		numbers[i] = int16(m)
	}
	ends, err := q.q.RollupsEnd(ctx)
	if err != nil {
		return classify(err)
	}
	from := b.From
	for _, t := range []tierTable{coarse, medium} {
		for _, end := range ends {
			if end.Step != t.seconds() || b.Step%t.Step != 0 {
				continue
			}
			until := minTime(end.Ended.UTC(), b.To)
			if err := q.addTier(ctx, t, b, id, numbers, from, until); err != nil {
				return err
			}
			from = maxTime(from, until)
		}
	}
	if err := q.addTier(ctx, fine, b, id, numbers, from, b.To); err != nil {
		return err
	}
	rows, err := q.q.SlicesOf(ctx, dbsqlc.SlicesOfParams{ClusterID: int64(id), Since: from.Add(-measure.Slice), Until: b.To})
	if err != nil {
		return classify(err)
	}
	wanted := func(m measure.Metric) bool { return slices.Contains(metrics, m) }
	for _, r := range rows {
		if err := addSlice(b, id, r.Node, r.Started, r.Packed, wanted, from, b.To); err != nil {
			return err
		}
	}
	return nil
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// measurementLock is the class of the advisory lock under which a cluster's history is packed anew.
const measurementLock = 7026

// How long after their end hours, days and tens of days are made of what is finer: what comes later is rare, and has
// them made anew.
const (
	lateSlices = 2 * time.Minute
	lateBlocks = 2 * time.Hour
	// lookBack is for how many blocks it is looked whether they have been made.
	lookBack = 40
)

// KeepMeasurements packs the history of databases anew as it becomes old, and drops what is too old. Several servers may do
// so; what is interrupted is taken up again.
func (s *Store) KeepMeasurements(ctx context.Context) error {
	now := s.now().UTC()
	err := s.InTx(ctx, func(tx *Tx) error {
		if err := tx.q.AccountLock(ctx, partitionLock<<40); err != nil {
			return classify(err)
		}
		return errors.Join(tx.makePartitions(ctx, fine.table, now), tx.makePartitions(ctx, medium.table, now))
	})
	if err != nil {
		return fmt.Errorf("partitions of measurements: %w", err)
	}
	if err := s.packHours(ctx, now); err != nil {
		return fmt.Errorf("pack measurements of hours: %w", err)
	}
	for _, t := range [][2]tierTable{{fine, medium}, {medium, coarse}} {
		if err := s.makeTier(ctx, t[0], t[1], now); err != nil {
			return fmt.Errorf("make %s: %w", t[1].table, err)
		}
	}
	return s.InTx(ctx, func(tx *Tx) error {
		if err := tx.q.AccountLock(ctx, partitionLock<<40); err != nil {
			return classify(err)
		}
		return errors.Join(tx.dropPartitions(ctx, fine.table, now, fine.Keep), tx.dropPartitions(ctx, medium.table, now, medium.Keep),
			classify(tx.q.CoarseForget(ctx, now.Add(-coarse.Keep))), classify(tx.q.SlicesForget(ctx)), classify(tx.q.RollupsForget(ctx, now.Add(-coarse.Keep))))
	})
}

// packHours makes blocks of the slices of hours that are over.
func (s *Store) packHours(ctx context.Context, now time.Time) error {
	hours, err := s.q.SlicesHours(ctx, measure.Fine.Start(now.Add(-lateSlices)))
	if err != nil {
		return classify(err)
	}
	for _, h := range hours {
		if err := s.InTx(ctx, func(tx *Tx) error { return tx.packHour(ctx, cluster.ID(h.ClusterID), h.Hour.UTC()) }); err != nil {
			return err
		}
	}
	if len(hours) == 0 {
		return nil
	}
	// Nearly all rows are gone now: questions would go over what is left of them until the server's own vacuum comes by.
	_, err = s.pool.Exec(ctx, "VACUUM (ANALYZE) measured_slices")
	return err
}

func (t *Tx) packHour(ctx context.Context, id cluster.ID, hour time.Time) error {
	if err := t.q.MeasurementLock(ctx, measurementLock, int32(id%math.MaxInt32)); err != nil {
		return classify(err)
	}
	end := hour.Add(time.Hour)
	rows, err := t.q.SlicesTake(ctx, dbsqlc.SlicesTakeParams{ClusterID: int64(id), Since: hour, Until: end})
	if err != nil || len(rows) == 0 {
		return classify(err)
	}
	b := measure.NewBuilder(measure.Range{From: hour, To: end, Step: fine.Step})
	all := func(measure.Metric) bool { return true }
	for _, r := range rows {
		if err := addSlice(b, id, r.Node, r.Started, r.Packed, all, hour, end); err != nil {
			return err
		}
	}
	if err := t.addTier(ctx, fine, b, id, allMetrics, hour, end); err != nil { // late slices of an hour that has been packed
		return err
	}
	if err := t.saveSeries(ctx, fine, id, hour, b.Series(), false); err != nil {
		return err
	}
	return classify(t.q.RollupsUndo(ctx, hour))
}

var allMetrics = func() (all []int16) {
	for _, d := range measure.Definitions() {
		all = append(all, int16(d.Metric))
	}
	return all
}()

func (t *Tx) saveSeries(ctx context.Context, into tierTable, id cluster.ID, started time.Time, series []measure.Series, spread bool) error {
	packed := make([]packedSeries, len(series))
	for i, s := range series {
		packed[i] = packedSeries{metric: int16(s.Metric), node: int16(s.Node), packed: measure.Pack(s.Points, spread)}
	}
	return classify(into.save(ctx, t.queries, id, started, packed))
}

// makeTier makes the blocks of a tier that are over of those of the finer one.
func (s *Store) makeTier(ctx context.Context, from, into tierTable, now time.Time) error {
	made, err := s.q.RollupsOf(ctx, into.seconds())
	if err != nil {
		return classify(err)
	}
	var missing []time.Time
	end := into.Start(now.Add(-lateBlocks))
	for back := lookBack + 1; back > 0; back-- {
		started := end.Add(-time.Duration(back) * into.Block)
		if !slices.ContainsFunc(made, started.Equal) {
			missing = append(missing, started)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	// Before the first start there is nothing: that takes two statements, not two for each block.
	ids, err := from.clusters(ctx, s.queries, missing[0], end)
	if err != nil {
		return classify(err)
	}
	if len(ids) == 0 {
		return s.addRollups(ctx, into, missing...)
	}
	for _, started := range missing {
		ids, err := from.clusters(ctx, s.queries, started, started.Add(into.Block))
		if err != nil {
			return classify(err)
		}
		for _, id := range ids {
			if err := s.InTx(ctx, func(tx *Tx) error { return tx.makeBlock(ctx, from, into, cluster.ID(id), started) }); err != nil {
				return err
			}
		}
		if err := s.addRollups(ctx, into, started); err != nil {
			return err
		}
	}
	return nil
}

// addRollups notes that blocks of a tier have been made.
func (s *Store) addRollups(ctx context.Context, t tierTable, starts ...time.Time) error {
	p := dbsqlc.RollupsAddParams{Step: t.seconds(), Starts: starts}
	for _, started := range starts {
		p.Ends = append(p.Ends, started.Add(t.Block))
	}
	return classify(s.q.RollupsAdd(ctx, p))
}

func (t *Tx) makeBlock(ctx context.Context, from, into tierTable, id cluster.ID, started time.Time) error {
	if err := t.q.MeasurementLock(ctx, measurementLock, int32(id%math.MaxInt32)); err != nil {
		return classify(err)
	}
	ended := started.Add(into.Block)
	b := measure.NewBuilder(measure.Range{From: started, To: ended, Step: into.Step})
	if err := t.addTier(ctx, from, b, id, allMetrics, started, ended); err != nil {
		return err
	}
	return t.saveSeries(ctx, into, id, started, b.Series(), true)
}

// MeasuredClusters are those that may have servers to measure: no deleted ones, and none that rest.
func (q queries) MeasuredClusters(ctx context.Context) ([]cluster.ID, error) {
	rows, err := q.q.MeasuredClusters(ctx)
	ids := make([]cluster.ID, len(rows))
	for i, id := range rows {
		ids[i] = cluster.ID(id)
	}
	return ids, classify(err)
}
