package memplatform

import (
	"context"
	"fmt"
	"strconv"

	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
)

// Rates at which the counters of every running node grow, by the second.
const (
	CommitRate  = 100
	LogByteRate = 4096
	// BusyCPU is the share of its processors that each uses.
	BusyCPU = 0.25
	// Sessions is how many customers' sessions each has.
	Sessions = 5
)

// Measure implements platform.Measurer. The numbers follow from the clock alone.
func (d *Driver) Measure(ctx context.Context, id cluster.ID) ([]platform.NodeReading, error) {
	c, err := d.measured(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []platform.NodeReading
	for i := range c.size() {
		all = append(all, c.reading(i, d))
	}
	return all, nil
}

// measured is a cluster whose servers should run.
func (d *Driver) measured(ctx context.Context, id cluster.ID) (c Cluster, err error) {
	err = d.faults.around(ctx, StepMeasure, id, func() error {
		var ok bool
		if c, ok = d.world.Cluster(id); !ok || c.Suspended || !c.SleepingSince.IsZero() || !c.Bootstrapped {
			return platform.ErrNotRunning
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("measure cluster %d: %w", id, err)
	}
	return c, nil
}

func (c Cluster) reading(ordinal int, d *Driver) platform.NodeReading {
	now := d.o.Now()
	n := c.node(ordinal)
	r := platform.NodeReading{Ordinal: ordinal, Role: n.Role, Reading: measure.NewReading(now)}
	if !n.Running {
		r.Set(measure.Up, 0)
		return r
	}
	since := now.Sub(c.Started).Seconds()
	r.Life, r.Crashes = strconv.Itoa(c.Starts), float64(c.Restarts)
	cpus := float64(max(1, c.Plan.VCPUs))
	r.CPUs, r.CPUSeconds = cpus, since*cpus*BusyCPU
	memory := float64(c.Plan.MemoryMB) * (1 << 20)
	r.SetShare(memory/2, memory, measure.MemoryUsed, measure.MemoryUsage, measure.AvailableMemory)
	r.SetShare(float64(c.UsedBytes), float64(c.Plan.DiskBytes()), measure.DiskUsed, measure.DiskUsage, measure.AvailableDisk)
	r.Set(measure.Up, 1)
	r.Set(measure.Connections, Sessions)
	r.Set(measure.ConnectionsMax, 100)
	r.Set(measure.Commits, since*CommitRate)
	r.Set(measure.LogBytes, since*LogByteRate)
	r.Set(measure.Primary, 1)
	if n.Role == cluster.Replica {
		r.Set(measure.Primary, 0)
		r.Set(measure.ReplicationLag, 0)
		r.Set(measure.ReplicationLagBytes, 0)
	}
	return r
}

// Families implements platform.Measurer.
func (d *Driver) Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error) {
	c, err := d.measured(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []platform.NodeFamilies
	for i := range c.size() {
		n := c.node(i)
		up := 0.0
		if n.Running {
			up = 1
		}
		all = append(all, platform.NodeFamilies{Ordinal: i, Role: n.Role, Families: []measure.Family{
			{Name: c.upFamily(), Help: "Whether the server answers.", Kind: measure.KindGauge, Samples: []measure.Sample{{Value: up}}},
			{Name: "pg_stat_database_xact_commit", Help: "Transactions.", Kind: measure.KindCounter, Samples: []measure.Sample{
				{Labels: []string{"datid", "5", "datname", "defaultdb"}, Value: d.o.Now().Sub(c.Started).Seconds() * CommitRate},
			}},
		}})
	}
	return all, nil
}

// upFamily follows from the installation's name, which begins with the engine's.
func (c Cluster) upFamily() string {
	if len(c.Installation) >= 5 && c.Installation[:5] == string(cluster.MySQL) {
		return measure.UpFamily(cluster.MySQL)
	}
	return measure.UpFamily(cluster.PostgreSQL)
}

// Tables implements platform.Measurer: there is one, of what was put into the cluster.
func (d *Driver) Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error) {
	c, err := d.measured(ctx, id)
	if err != nil {
		return nil, err
	}
	return measure.Largest([]measure.Table{{Database: "defaultdb", Schema: "public", Table: "data", Bytes: int64(len(c.Data)), Rows: 1}}, most), nil
}
