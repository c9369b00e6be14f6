package host

import (
	"time"

	"steward/internal/cluster"
)

// lookAsleep is how often it is looked again what a cluster waits for that sleeps: newer builds come, and certificates near
// their end.
const lookAsleep = time.Minute

// asleepFindings are what was found of a cluster that sleeps, hundreds of which are asked about every few seconds. They hold as long as
// that sleep does: whatever starts its servers ends it.
type asleepFindings struct {
	// since is the sleep that they are of.
	since time.Time
	// archived reports whether all that its servers wrote is in the archive.
	archived bool
	// tasks are what it waited for when that was looked for, of a series.
	tasks   []cluster.Task
	tasksAt time.Time
	series  string
}

// holds reports whether they are of a sleep that goes on.
func (f asleepFindings) holds(r rest) bool { return r.still() && f.since.Equal(r.since) }

// findings returns what holds of a cluster that sleeps; nothing when it doesn't.
func (cs *clusterState) findings() asleepFindings {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.found.holds(cs.resting) {
		return cs.found
	}
	return asleepFindings{}
}

// find notes something of a cluster that has slept since before it was looked for.
func (cs *clusterState) find(before rest, note func(f *asleepFindings)) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := cs.resting
	if !before.still() || !now.still() || !before.since.Equal(now.since) {
		return
	}
	if !cs.found.holds(now) {
		cs.found = asleepFindings{since: now.since}
	}
	note(&cs.found)
}

// dormant reports whether a cluster is known to sleep, without a look at its files.
func (d *Driver) dormant(id cluster.ID) bool {
	d.mu.Lock()
	cs := d.clusters[id]
	d.mu.Unlock()
	return cs != nil && cs.rest().still()
}
