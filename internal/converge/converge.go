// Package converge is endless upkeep without input: whatever state a database
// is in, it is looked at again and again and brought back to what was asked
// for. It retries nothing within a look; the next look is the retry.
package converge

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/operate"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

// Options are what a Keeper is made of.
type Options struct {
	Store   *store.Store
	Driver  platform.Driver
	Catalog *catalog.Catalog
	Logger  *slog.Logger
	// Every is the time between two looks at a database that gives no sign;
	// 0 means 10 s.
	Every time.Duration
	// Grace is how long a database may be down before its status says so, so
	// that a crash restart doesn't make it flap; 0 means 5 s.
	Grace time.Duration
}

// Keeper looks after all databases.
type Keeper struct {
	Options
	stop    context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// downSince is when a database was first seen not serving.
	downSince map[cluster.ID]time.Time
}

// atOnce is how many databases are looked at at the same time.
const atOnce = 4

// lookTime bounds one look.
const lookTime = time.Minute

// orphansEvery is how often what no database owns is cleared away.
const orphansEvery = 10 * time.Minute

// New makes a Keeper; Start starts it.
func New(o Options) *Keeper {
	if o.Every == 0 {
		o.Every = 10 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	return &Keeper{Options: o, downSince: map[cluster.ID]time.Time{}}
}

// Start clears orphans away, looks at every database once (which adopts those
// that run) and then goes on until Stop.
func (k *Keeper) Start(ctx context.Context) {
	ctx, k.stop = context.WithCancel(context.WithoutCancel(ctx))
	k.running.Go(func() { k.loop(ctx) })
	k.running.Go(func() { k.orphans(ctx) })
}

// Stop ends the upkeep; databases run on.
func (k *Keeper) Stop() {
	if k.stop != nil {
		k.stop()
		k.running.Wait()
	}
}

func (k *Keeper) loop(ctx context.Context) {
	k.LookAtAll(ctx)
	tick := time.NewTicker(k.Every)
	defer tick.Stop()
	soon := make(chan cluster.ID, 64)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			k.LookAtAll(ctx)
		case id := <-k.Driver.Changes():
			k.lookAndLog(ctx, id)
			// Once more after the grace: what is still down then is down.
			time.AfterFunc(k.Grace+100*time.Millisecond, func() {
				select {
				case soon <- id:
				default: // the next tick looks anyway
				}
			})
		case id := <-soon:
			k.lookAndLog(ctx, id)
		}
	}
}

// LookAtAll looks at every database once.
func (k *Keeper) LookAtAll(ctx context.Context) {
	all, err := k.Store.ClustersForWork(ctx)
	if err != nil {
		if ctx.Err() == nil {
			k.Logger.WarnContext(ctx, "list databases to look after", "error", err)
		}
		return
	}
	slots := make(chan struct{}, atOnce)
	var looks sync.WaitGroup
	for _, c := range all {
		if !mine(c) {
			continue
		}
		slots <- struct{}{}
		looks.Go(func() {
			defer func() { <-slots }()
			k.lookAndLog(ctx, c.ID)
		})
	}
	looks.Wait()
}

// mine tells whether the database is in a status that no operation is in charge of.
func mine(c cluster.Cluster) bool {
	return c.Deleted == nil && (c.Status == cluster.Active || c.Status == cluster.Degraded || c.Status == cluster.Failed)
}

func (k *Keeper) lookAndLog(ctx context.Context, id cluster.ID) {
	if err := k.Look(ctx, id); err != nil && ctx.Err() == nil {
		k.Logger.WarnContext(ctx, "look after database", "cluster_id", id, "error", err)
	}
}

// Look observes a database, brings it back if it isn't as it should be, and
// records what was seen.
func (k *Keeper) Look(ctx context.Context, id cluster.ID) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	leased, release, ok, err := k.Store.Lease(ctx, id)
	if err != nil || !ok {
		return err // whoever holds the lease looks after it
	}
	defer release()
	c, err := k.Store.ClusterForWork(leased, id)
	if fault.IsKind(err, fault.NotFound) || err == nil && !mine(c) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := operate.Wanted(c, k.Catalog, false)
	if err != nil {
		return err
	}
	seen, err := k.bringBack(leased, want)
	if err != nil {
		k.Logger.WarnContext(ctx, "bring database back", "cluster_id", id, "error", err)
	}
	if err := k.guardDisk(leased, want, &seen); err != nil {
		return err
	}
	if seen.Exists {
		if err := k.Store.RecordObserved(leased, id, keepHosts(seen, c)); err != nil {
			return err
		}
	}
	return k.judge(leased, c, seen)
}

// bringBack applies once when something differs from what is wanted.
func (k *Keeper) bringBack(ctx context.Context, want platform.Wanted) (platform.Observed, error) {
	seen, err := k.Driver.Observe(ctx, want.ID)
	if err == nil && seen.Serving && seen.Settled {
		return seen, nil
	}
	failpoint.Here("converge: before apply")
	seen, err = k.Driver.Apply(ctx, want)
	failpoint.Here("converge: after apply")
	if err != nil {
		return seen, fmt.Errorf("apply: %w", err)
	}
	return seen, nil
}

// keepHosts doesn't let a look at a database that is down take its addresses away:
// they are stable.
func keepHosts(seen platform.Observed, c cluster.Cluster) platform.Observed {
	if seen.Hosts.Primary == "" {
		seen.Hosts, seen.Members = c.Hosts, c.Members
	}
	if seen.Installation == "" {
		seen.Installation = c.Installation
	}
	if seen.ServerVersion == "" {
		seen.ServerVersion = c.ServerVersion
	}
	if seen.UsedBytes == nil {
		seen.UsedBytes = c.UsedBytes
	}
	return seen
}

// judge moves the status to what was seen, with an event.
func (k *Keeper) judge(ctx context.Context, c cluster.Cluster, seen platform.Observed) error {
	if seen.Serving {
		k.forgetDown(c.ID)
		if c.Status == cluster.Active || !seen.Settled {
			return nil
		}
		return k.moved(ctx, c, cluster.Healed, operation.Recovered, "The database serves again.")
	}
	if c.Status == cluster.Failed || k.downFor(c.ID) < k.Grace {
		return nil
	}
	message := "The database doesn't serve"
	if seen.Problem != "" {
		message += ": " + seen.Problem
	}
	return k.moved(ctx, c, cluster.Down, operation.Failed, message)
}

func (k *Keeper) downFor(id cluster.ID) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	since, known := k.downSince[id]
	if !known {
		since = time.Now()
		k.downSince[id] = since
	}
	return time.Since(since)
}

func (k *Keeper) forgetDown(id cluster.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.downSince, id)
}

// moved changes the status and tells of it, together.
func (k *Keeper) moved(ctx context.Context, c cluster.Cluster, on cluster.Trigger, action operation.Action, message string) error {
	err := k.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.Transition(ctx, c, on); err != nil {
			return err
		}
		return notify(ctx, tx, c, action, message)
	})
	if err != nil {
		return fmt.Errorf("record %s: %w", action, err)
	}
	k.Logger.WarnContext(ctx, "database has changed by itself", "cluster_id", c.ID, "action", action, "message", message)
	return nil
}

func notify(ctx context.Context, tx *store.Tx, c cluster.Cluster, action operation.Action, message string) error {
	_, err := tx.CreateOperation(ctx, operation.Operation{
		Account: c.Account, Cluster: c.ID, Label: c.Label, Engine: c.Engine, Action: action, Status: operation.Notification, Message: message,
	})
	return err
}
