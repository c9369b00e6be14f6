package memplatform

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"steward/internal/cluster"
)

// IDs are the clusters of which there is anything.
func (w *World) IDs() []cluster.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.clusters))
}

// Cluster is a copy of what there is of a cluster.
func (w *World) Cluster(id cluster.ID) (Cluster, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clusters[id]
	if c == nil {
		return Cluster{}, false
	}
	found := *c
	found.AllowList = slices.Clone(c.AllowList)
	return found, true
}

// Put makes a cluster exist as given: an orphan, or one left half-made.
func (w *World) Put(c Cluster) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clusters[c.ID] = &c
}

// Edit changes what there is of a cluster behind the driver's back: its used
// bytes, a server that is down. It reports whether the cluster was there.
func (w *World) Edit(id cluster.ID, f func(*Cluster)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clusters[id]
	if c != nil {
		f(c)
	}
	return c != nil
}

// Reboot stops every server, as a restart of the machine does.
func (w *World) Reboot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clusters {
		c.Running = false
	}
}

// Login is nil when dbadmin gets in through the gateway from an address with a password.
func (w *World) Login(id cluster.ID, from netip.Addr, password string) error {
	c, ok := w.Cluster(id)
	switch {
	case !ok || !c.Routed:
		return fmt.Errorf("cluster %d: connection refused", id)
	case !slices.ContainsFunc(c.AllowList.Prefixes(), func(p netip.Prefix) bool { return p.Contains(from) }):
		return fmt.Errorf("cluster %d: %s is not on the allow list", id, from)
	case !c.up(c.Primary) || !c.Bootstrapped:
		return fmt.Errorf("cluster %d: server doesn't answer", id)
	case password != c.Password:
		return fmt.Errorf("cluster %d: wrong password", id)
	}
	return nil
}

// Crash makes a cluster's server exit and, as real drivers do, come back by
// itself; the exit is told on Changes.
func (d *Driver) Crash(id cluster.ID) {
	d.world.Edit(id, func(c *Cluster) {
		c.Restarts++
		c.Starts++
		c.Started = d.o.Now()
	})
	d.Change(id)
}

// Break stops a cluster's server and keeps it from being started until Mend.
func (d *Driver) Break(id cluster.ID, problem string) {
	d.world.Edit(id, func(c *Cluster) { c.Running, c.Broken = false, problem })
	d.Change(id)
}

// Mend lets a broken cluster's server run again, and brings lost nodes back.
func (d *Driver) Mend(id cluster.ID) {
	d.world.Edit(id, func(c *Cluster) {
		c.Running, c.Broken, c.Lost = c.Bootstrapped && !c.Suspended, "", [3]bool{}
	})
	d.Change(id)
}

// LoseReplica ends one replica, until Mend.
func (d *Driver) LoseReplica(id cluster.ID) {
	d.world.Edit(id, func(c *Cluster) {
		if i, ok := c.replica(); ok {
			c.Lost[i] = true
		}
	})
	d.Change(id)
}

// Sleep puts a cluster to sleep, or wakes it for something, as drivers do by themselves.
func (d *Driver) Sleep(id cluster.ID, since time.Time, wokenFor string) {
	d.world.Edit(id, func(c *Cluster) { c.SleepingSince, c.WokenFor = since, wokenFor })
	d.Change(id)
}

// LosePrimary ends the primary, until Mend. A replica takes over when there is one.
func (d *Driver) LosePrimary(id cluster.ID) {
	d.world.Edit(id, func(c *Cluster) {
		old := c.Primary
		c.Lost[old] = true
		next, ok := c.replica()
		if !ok {
			return
		}
		c.Primary, c.LastFailover = next, d.o.Now()
		c.LastChange = cluster.PrimaryChange{From: old, To: next, Took: 1500 * time.Millisecond}
		c.Failovers++
		c.FailoverReason = fmt.Sprintf("Node %d was lost; node %d took over without losing what was acknowledged.", old, next)
	})
	d.Change(id)
}

// replica is one that runs.
func (c *Cluster) replica() (ordinal int, ok bool) {
	for i := range c.size() {
		if i != c.Primary && c.up(i) {
			return i, true
		}
	}
	return 0, false
}

// Change tells on Changes that a cluster should be looked at. It is dropped
// when nobody listens for long, as hints may be.
func (d *Driver) Change(id cluster.ID) {
	select {
	case d.changes <- id:
	default:
	}
}
