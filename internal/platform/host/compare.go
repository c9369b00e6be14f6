package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"steward/internal/engine"
	"steward/internal/platform/host/state"
)

// A replica may come to have other rows than the primary without noticing. So now
// and then its rows are compared, and one that differs is given a new copy.

const (
	// defaultCompareEvery is how often each replica is compared.
	defaultCompareEvery = 24 * time.Hour
	// compareTime bounds a comparison: what is left out is compared another day.
	compareTime = 2 * time.Minute
)

// comparison is the health monitor's schedule of comparisons.
type comparison struct {
	due  time.Time
	next int
	busy chan struct{} // holds one while a comparison runs
}

func newComparison(now time.Time, every time.Duration) comparison {
	// By chance, so that not all clusters of a host are compared at once.
	return comparison{due: now.Add(rand.N(every)), busy: make(chan struct{}, 1)}
}

// compareWhenDue begins a comparison when one is due.
func (hm *healthMonitor) compareWhenDue(top state.Topology) {
	now := hm.d.o.Now()
	if now.Before(hm.comparison.due) {
		return
	}
	select {
	case hm.comparison.busy <- struct{}{}:
	default:
		return
	}
	replicas := top.Replicas()
	ordinal := replicas[hm.comparison.next%len(replicas)]
	hm.comparison.next++
	hm.comparison.due = now.Add(hm.d.o.CompareEvery / time.Duration(len(replicas)))
	busy := hm.comparison.busy
	hm.d.spawn(func() {
		defer func() { <-busy }()
		hm.d.compare(hm.cs, top, ordinal)
	})
}

// compare compares a replica with the primary while all other nodes are well: one
// that differs is no loss then. Of a host's clusters one is compared at a time.
func (d *Driver) compare(cs *clusterState, top state.Topology, ordinal int) {
	d.comparing.Lock()
	defer d.comparing.Unlock()
	for _, other := range top.Replicas() {
		if ns := cs.node(other); !ns.readable() || ns.isRebuilding() || ns.isDiverged() {
			return
		}
	}
	ns := cs.node(ordinal)
	ctx, cancel := context.WithTimeout(d.quit, compareTime)
	defer cancel()
	whole, err := d.compareNode(ctx, ns)
	switch {
	case errors.Is(err, engine.ErrDiverged):
		d.log.Warn("a replica differs from the primary", "cluster_id", cs.id, "node", ordinal, "error", err)
		ns.setDifference(err.Error())
		d.notifyChange(cs.id)
	case err != nil && d.quit.Err() == nil:
		d.log.Warn("compare a replica with the primary", "cluster_id", cs.id, "node", ordinal, "error", err)
	default:
		d.log.Debug("compared a replica with the primary", "cluster_id", cs.id, "node", ordinal, "whole", whole)
	}
}

func (d *Driver) compareNode(ctx context.Context, ns *nodeState) (whole bool, err error) {
	rec, err := state.ReadNode(d.layout.node(ns.id, ns.ordinal))
	if err != nil || rec == nil {
		return false, err
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return false, err
	}
	return eng.Compare(ctx, node)
}

// setDifference notes that a replica was found to have other rows than the primary.
func (ns *nodeState) setDifference(why string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.diverged, ns.difference = true, why
}

func (ns *nodeState) lastDifference() string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.difference
}
