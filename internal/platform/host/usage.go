package host

import (
	"time"

	"steward/internal/platform/host/files"
	"steward/internal/platform/host/state"
)

// usageFresh is how long a measurement counts when the disk is far from full;
// a nearly full one is measured each time. While nobody writes it counts for longer.
const (
	usageFresh       = 10 * time.Second
	usageFreshAsleep = 30 * time.Minute
)

// lastUsed is what was measured last, and when.
func (ns *nodeState) lastUsed() (used int64, at time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.used, ns.usedAt
}

// used is the disk in use by the node's files.
func (d *Driver) used(ns *nodeState, rec *state.Node, asleep bool) int64 {
	now := d.o.Now()
	used, at := ns.lastUsed()
	nearlyFull := rec.Applied != nil && used > rec.Applied.Plan.DiskBytes()/10*8
	fresh := now.Sub(at) < usageFresh && !nearlyFull
	if asleep {
		fresh = now.Sub(at) < usageFreshAsleep
	}
	if !at.IsZero() && fresh {
		return used
	}
	used = files.Size(d.layout.node(rec.Cluster, rec.Ordinal))
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.used, ns.usedAt = used, now
	return used
}
