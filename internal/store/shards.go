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
	// have been begun. Long ago when nobody had it.
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

// Share is what the watcher had when it last looked.
type Share struct {
	Held []Shard
	// Alone reports whether there is no other watcher.
	Alone bool

	stamp, alive int64
}

// fair is how many shards each of so many watchers has.
func fair(alive int64) int {
	n := int(max(alive, 1))
	return (monitor.Shards + n - 1) / n
}

// Unchanged reports whether the watcher still has what it had, nothing of it has
// changed, and it is its fair part: asked each second, and true nearly always.
func (q queries) Unchanged(ctx context.Context, w Watcher, before Share) (bool, error) {
	r, err := q.q.ShardsCount(ctx, w.ID)
	if err != nil {
		return false, classify(err)
	}
	same := int(r.Held) == len(before.Held) && r.Stamp == before.stamp && r.Alive == before.alive
	return same && int(r.Held) == fair(r.Alive), nil
}

// Share gives the watcher its fair part of the shards: it takes those of nobody
// living, and lets go what is more, of which all checks that were due before the
// watermark have begun.
func (s *Store) Share(ctx context.Context, w Watcher, watermark time.Time) (share Share, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		share, err = tx.share(ctx, w, watermark)
		return err
	})
	return share, err
}

func (t *Tx) share(ctx context.Context, w Watcher, watermark time.Time) (Share, error) {
	rows, err := t.q.ShardsOf(ctx, w.ID)
	if err != nil {
		return Share{}, classify(err)
	}
	watchers, err := t.q.WatchersAlive(ctx)
	if err != nil {
		return Share{}, classify(err)
	}
	held := make([]Shard, len(rows))
	for i, r := range rows {
		held[i] = Shard{ID: int(r.ID), Epoch: r.Epoch, Changed: r.Changed}
	}
	fair := fair(watchers)
	switch {
	case len(held) > fair:
		ids := make([]int, 0, len(held)-fair)
		for _, s := range held[fair:] {
			ids = append(ids, s.ID)
		}
		held, err = held[:fair], t.q.ShardsGive(ctx, dbsqlc.ShardsGiveParams{Holder: w.ID, Ids: int32s(ids), Watermark: watermark})
	case len(held) < fair:
		var taken []dbsqlc.ShardsTakeRow
		taken, err = t.q.ShardsTake(ctx, w.ID, int32(fair-len(held)))
		for _, r := range taken {
			shard := Shard{ID: int(r.ID), Epoch: r.Epoch, Changed: r.Changed, Missed: r.Watermark}
			held = append(held, shard)
		}
	}
	share := Share{Held: held, Alone: watchers == 1, alive: watchers}
	for _, s := range held {
		share.stamp += s.Epoch + s.Changed
	}
	return share, classify(err)
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
