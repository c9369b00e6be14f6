package host

import (
	"time"

	"steward/internal/platform/host/files"
	"steward/internal/platform/host/state"
)

// usageFresh is how long a measurement counts when the disk is far from full;
// a nearly full one is measured each time.
const usageFresh = 10 * time.Second

// used is the disk in use by the node's files.
func (d *Driver) used(ns *nodeState, rec *state.Node) int64 {
	now := d.o.Now()
	ns.mu.Lock()
	used, at := ns.used, ns.usedAt
	ns.mu.Unlock()
	nearlyFull := rec.Applied != nil && used > rec.Applied.Plan.DiskBytes()/10*8
	if !at.IsZero() && now.Sub(at) < usageFresh && !nearlyFull {
		return used
	}
	used = files.Size(d.layout.node(rec.Cluster, rec.Ordinal))
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.used, ns.usedAt = used, now
	return used
}
