package store

import (
	"context"
	"time"

	"steward/internal/monitor"
	"steward/internal/store/dbsqlc"
)

// Shard is a part of the services that one server checks.
type Shard struct {
	ID    int
	Epoch int64
	// Changed grows with every change of its services.
	Changed int64
	// Missed is set on a shard that was taken over: checks due since then may not
	// have been begun. Zero when nobody had it.
	Missed time.Time
}

// Watcher is one server that checks services.
type Watcher struct {
	ID string
	// Alive is how long it counts as living after its last word.
	Alive time.Duration
}

// JoinWatchers makes a watcher known, under an id that nobody had.
func (q queries) JoinWatchers(ctx context.Context, w Watcher, watermark time.Time) error {
	if err := q.q.WatchersForget(ctx); err != nil {
		return classify(err)
	}
	return classify(q.q.WatcherAdd(ctx, dbsqlc.WatcherAddParams{ID: w.ID, Alive: w.Alive.Seconds(), Watermark: watermark}))
}

// RenewWatcher says that the watcher lives, and that all its checks that were due
// before the watermark have begun; false when it is unknown. One that was taken
// for dead lives again, without the shards that others have taken.
func (q queries) RenewWatcher(ctx context.Context, w Watcher, watermark time.Time) (bool, error) {
	n, err := q.q.WatcherRenew(ctx, dbsqlc.WatcherRenewParams{ID: w.ID, Alive: w.Alive.Seconds(), Watermark: watermark})
	return n == 1, classify(err)
}

// LeaveWatchers gives all of the watcher's shards to whoever wants them.
func (q queries) LeaveWatchers(ctx context.Context, w Watcher, watermark time.Time) error {
	return classify(q.q.WatcherRemove(ctx, watermark, w.ID))
}

// Share gives the watcher its fair part of the shards: it takes those of nobody
// living, and lets go what is more. It returns all it has now, and whether it is
// the only watcher.
func (s *Store) Share(ctx context.Context, w Watcher) (held []Shard, alone bool, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		held, alone, err = tx.share(ctx, w)
		return err
	})
	return held, alone, err
}

func (t *Tx) share(ctx context.Context, w Watcher) ([]Shard, bool, error) {
	rows, err := t.q.ShardsOf(ctx, w.ID)
	if err != nil {
		return nil, false, classify(err)
	}
	watchers, err := t.q.WatchersAlive(ctx)
	if err != nil {
		return nil, false, classify(err)
	}
	held := make([]Shard, len(rows))
	for i, r := range rows {
		held[i] = Shard{ID: int(r.ID), Epoch: r.Epoch, Changed: r.Changed}
	}
	fair := (monitor.Shards + int(max(watchers, 1)) - 1) / int(max(watchers, 1))
	switch {
	case len(held) > fair:
		ids := make([]int, 0, len(held)-fair)
		for _, s := range held[fair:] {
			ids = append(ids, s.ID)
		}
		held, err = held[:fair], t.q.ShardsGive(ctx, w.ID, int32s(ids))
	case len(held) < fair:
		var taken []dbsqlc.ShardsTakeRow
		taken, err = t.q.ShardsTake(ctx, w.ID, int32(fair-len(held)))
		for _, r := range taken {
			shard := Shard{ID: int(r.ID), Epoch: r.Epoch, Changed: r.Changed}
			if r.Watermark != nil {
				shard.Missed = *r.Watermark
			}
			held = append(held, shard)
		}
	}
	return held, watchers == 1, classify(err)
}

// StillHeld are those of the shards that the watcher holds in the epoch given,
// until the transaction ends. What it says of others is not to be taken.
func (t *Tx) StillHeld(ctx context.Context, w Watcher, epochs map[int]int64) (map[int]bool, error) {
	p := dbsqlc.ShardsHeldParams{Holder: w.ID}
	for id, epoch := range epochs {
		p.Ids, p.Epochs = append(p.Ids, int32(id)), append(p.Epochs, epoch)
	}
	rows, err := t.q.ShardsHeld(ctx, p)
	held := map[int]bool{}
	for _, id := range rows {
		held[int(id)] = true
	}
	return held, classify(err)
}
