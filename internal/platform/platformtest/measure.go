package platformtest

import (
	"errors"
	"math"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
)

// mustBeMeasured demands readings of so many nodes that serve, the primary first.
func (r *run) mustBeMeasured(id cluster.ID, nodes int) {
	r.t.Helper()
	all, err := r.driver.Measure(r.ctx, id)
	if err != nil || len(all) != nodes {
		r.t.Errorf("%d readings of %d nodes, %v", len(all), nodes, err)
		return
	}
	for i, n := range all {
		want, role := 0.0, cluster.Replica
		if i == 0 {
			want, role = 1, cluster.Primary
		}
		v := &n.Values
		if v[measure.Up] != 1 || v[measure.Primary] != want || n.Role != role || !(v[measure.DiskUsed] > 0) || math.IsNaN(v[measure.Connections]) || n.CPUs < 1 {
			r.t.Errorf("node %d, %s: up %v, primary %v, disk %v, connections %v", n.Ordinal, n.Role, v[measure.Up], v[measure.Primary], v[measure.DiskUsed], v[measure.Connections])
		}
		if lag := v[measure.ReplicationLagBytes]; i > 0 && (math.IsNaN(lag) || lag > 1<<20) {
			r.t.Errorf("node %d lags by %v bytes", n.Ordinal, lag)
		}
	}
	families, err := r.driver.Families(r.ctx, id)
	if err != nil || len(families) != nodes || len(families[0].Families) == 0 {
		r.t.Errorf("families of %d nodes, %v", len(families), err)
	}
	if _, err := r.driver.Tables(r.ctx, id, 5); err != nil {
		r.t.Errorf("tables: %v", err)
	}
}

// mustNotBeMeasured demands that nobody is asked.
func (r *run) mustNotBeMeasured(id cluster.ID) {
	r.t.Helper()
	_, err := r.driver.Measure(r.ctx, id)
	_, errFamilies := r.driver.Families(r.ctx, id)
	_, errTables := r.driver.Tables(r.ctx, id, 5)
	for _, err := range []error{err, errFamilies, errTables} {
		if !errors.Is(err, platform.ErrNotRunning) {
			r.t.Errorf("of one that doesn't run: %v", err)
		}
	}
}

// mustHaveCrashed demands that so many servers have ended by themselves since a cluster was measured last, and are back.
func (r *run) mustHaveCrashed(id cluster.ID, servers float64) {
	r.t.Helper()
	all, err := r.driver.Measure(r.ctx, id)
	if err != nil {
		r.t.Fatalf("measure: %v", err)
	}
	crashed := 0.0
	for _, n := range all {
		m := r.meters[meterOf{id, n.Ordinal}]
		if m == nil {
			m = &measure.Meter{}
			r.meters[meterOf{id, n.Ordinal}] = m
		}
		crashed += m.Add(n.Reading)[measure.Restarts]
	}
	if crashed != servers {
		r.t.Errorf("%v servers of %d ended by themselves, not %v", crashed, len(all), servers)
	}
}

// meterOf is a node that is measured.
type meterOf struct {
	id      cluster.ID
	ordinal int
}
