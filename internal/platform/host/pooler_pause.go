package host

import (
	"context"
	"errors"
	"sync"
	"time"

	"steward/internal/cluster"
)

// pauseWithin is how long a planned stop waits for the transactions that are under way in pools; what takes longer is cut, as it is
// without a pool. Others wait meanwhile.
const pauseWithin = 2 * time.Second

// pausePools has the clients of a cluster's pools wait with their next transaction, and waits until none is at one: the server that they
// were at can stop then. Clients of pools in session mode keep their connections, and lose them.
func (d *Driver) pausePools(ctx context.Context, cs *clusterState) {
	l := d.runningPooler(ctx, cs)
	if l == nil {
		return
	}
	defer cs.pooler.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, pauseWithin)
	defer cancel()
	var work sync.WaitGroup
	for _, p := range l.rec.Pools {
		if p.Mode == cluster.PoolSession {
			continue
		}
		work.Go(func() {
			if err := l.console.Pause(ctx, p.Label); err != nil {
				d.log.Warn("a pool isn't quiet before a planned stop", "cluster_id", cs.id, "pool", p.Label, "error", err)
			}
		})
	}
	work.Wait()
	d.log.Debug("pools are paused", "cluster_id", cs.id, "ms", milliseconds(time.Since(began)))
}

// leadPools has a cluster's pools lead to its primary, which takes writes, and their clients go on.
func (d *Driver) leadPools(ctx context.Context, cs *clusterState) {
	l := d.runningPooler(ctx, cs)
	if l == nil {
		return
	}
	defer cs.pooler.mu.Unlock()
	if err := d.refreshPooler(ctx, cs, l); err != nil {
		d.log.Warn("pools don't lead to the primary yet", "cluster_id", cs.id, "error", err)
	}
}

// reconnectPools has a cluster's pools tell those who log in from now on of the server as it is: it is of another version.
func (d *Driver) reconnectPools(ctx context.Context, cs *clusterState) {
	l := d.runningPooler(ctx, cs)
	if l == nil {
		return
	}
	defer cs.pooler.mu.Unlock()
	for _, p := range l.rec.Pools {
		if err := l.console.Reconnect(ctx, p.Label); err != nil {
			d.log.Warn("a pool tells of an older version", "cluster_id", cs.id, "pool", p.Label, "error", err)
		}
	}
}

// resumePools has the clients of a cluster's pools go on, wherever that leads.
func (d *Driver) resumePools(ctx context.Context, cs *clusterState) {
	l := d.runningPooler(ctx, cs)
	if l == nil {
		return
	}
	defer cs.pooler.mu.Unlock()
	if err := l.resume(ctx); err != nil {
		d.log.Warn("pools don't go on", "cluster_id", cs.id, "error", err)
	}
}

// runningPooler is a look at a pooler that runs, which the caller then holds; nil when none does.
func (d *Driver) runningPooler(ctx context.Context, cs *clusterState) *poolerLook {
	if !cs.pooler.running() {
		return nil
	}
	cs.pooler.mu.Lock()
	l, err := d.newPoolerLook(ctx, cs)
	if err != nil || !cs.pooler.running() || len(l.rec.Pools) == 0 {
		cs.pooler.mu.Unlock()
		return nil
	}
	return l
}

func (l *poolerLook) resume(ctx context.Context) error {
	var errs []error
	for _, p := range l.rec.Pools {
		errs = append(errs, l.console.Resume(ctx, p.Label))
	}
	return errors.Join(errs...)
}
