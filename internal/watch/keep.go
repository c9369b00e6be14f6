package watch

import (
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"steward/internal/monitor"
	"steward/internal/store"
)

// keepEvery is how often leases are renewed and services that changed are read.
const keepEvery = time.Second

// keep talks to the store, apart from the checks, which must not wait for it.
func (w *Watcher) keep(ctx context.Context) {
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	k := &keeper{Watcher: w}
	for {
		k.step(ctx)
		select {
		case <-ctx.Done():
			k.leave(ctx)
			return
		case <-ticker.C:
		case <-w.wake:
			k.recordNow(ctx)
		}
	}
}

// keeper is what only the goroutine that keeps knows.
type keeper struct {
	*Watcher
	self store.Watcher
	// last is what was there when the services were last read.
	last store.Share
	away bool
}

// recordNow writes what doesn't wait for the next step.
func (k *keeper) recordNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	k.record(ctx, time.Now())
}

// storeTime bounds a step: after it the store counts as away.
const storeTime = 5 * time.Second

func (k *keeper) step(ctx context.Context) {
	// A step that has begun is ended, also when we stop: nobody would know what came of it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	began := time.Now()
	err := k.renew(ctx)
	if err == nil {
		k.record(ctx, began)
		err = k.share(ctx, began)
	}
	if away := err != nil; away != k.away {
		k.away = away
		if away {
			k.Logger.Warn("The monitor can't reach the store; checks go on as long as nobody else may take them over.", "error", err)
		} else {
			k.Logger.Info("The monitor reaches the store again.")
		}
	}
}

// renew says that this server lives, or makes it known.
func (k *keeper) renew(ctx context.Context) error {
	if k.self.ID != "" {
		known, err := k.Store.RenewWatcher(ctx, k.self, k.watermark())
		if known || err != nil {
			return err
		}
	}
	self := store.Watcher{ID: rand.Text(), Alive: k.Lease}
	if err := k.Store.JoinWatchers(ctx, self, k.watermark()); err != nil {
		return err
	}
	k.self = self
	return nil
}

// watermark is the time up to which all that was due has begun.
func (w *Watcher) watermark() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Unix(0, w.wheel.advanced*int64(tick))
}

// share takes and gives shards, and reads those that are new or have changed.
func (k *keeper) share(ctx context.Context, began time.Time) error {
	if same, err := k.Store.Unchanged(ctx, k.self, k.last); err != nil {
		return err
	} else if same {
		k.ourUntil(began)
		return nil
	}
	k.last = store.Share{} // until what there is has been read
	share, err := k.Store.Share(ctx, k.self, k.watermark())
	if err != nil {
		return err
	}
	stale := k.takeShare(share)
	k.ourUntil(began)
	if len(stale) > 0 {
		if err := k.readShards(ctx, share, stale); err != nil {
			return err
		}
	}
	k.last = share
	return nil
}

// takeShare drops the shards that are another server's by now. It returns those that
// are new or have changed, and since when checks of each may not have been begun.
func (k *keeper) takeShare(share store.Share) (stale map[int]time.Time) {
	stale = map[int]time.Time{}
	ours := map[int]bool{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.alone = share.Alone
	for _, s := range share.Held {
		ours[s.ID] = true
		if had := k.shards[s.ID]; had == nil || had.epoch != s.Epoch || had.changed != s.Changed {
			stale[s.ID] = s.Missed
		}
	}
	maps.DeleteFunc(k.shards, func(id int, _ *shard) bool { return !ours[id] })
	maps.DeleteFunc(k.entries, func(id monitor.ServiceID, _ *entry) bool { return !ours[id.Shard()] })
	return stale
}

// readShards reads the services of some shards. They are read after the counts of
// their changes: what changes in between is read once more, never missed.
func (k *keeper) readShards(ctx context.Context, share store.Share, stale map[int]time.Time) error {
	found, err := k.Store.WatchedOf(ctx, slices.Sorted(maps.Keys(stale)), time.Now().Add(-k.Rules.FlapWindow))
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range share.Held {
		if _, read := stale[s.ID]; read {
			k.shards[s.ID] = &shard{epoch: s.Epoch, changed: s.Changed}
		}
	}
	k.replace(stale, found, time.Now())
	return nil
}

// ourUntil says that what was leased is ours for as long as others wait, counted
// from before the store was asked.
func (k *keeper) ourUntil(began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = began.Add(k.Lease - k.Lease/10)
}

// leave records what there is and lets others take over at once.
func (k *keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	k.record(ctx, time.Now().Add(time.Hour)) // when all results are due
	if k.self.ID == "" {
		return
	}
	if err := k.Store.LeaveWatchers(ctx, k.self, k.watermark()); err != nil {
		k.Logger.Warn("The monitor couldn't hand over its services; others take them over in a few seconds.", "error", err)
	}
}
