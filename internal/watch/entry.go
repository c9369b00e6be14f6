package watch

import (
	"fmt"
	"time"

	"steward/internal/monitor"
	"steward/internal/probe"
	"steward/internal/store"
)

// entry is a service on the wheel.
type entry struct {
	monitor.Service
	target    probe.Target
	interval  time.Duration
	condition monitor.Condition
	running   bool
	// asked is when a check was last asked for; nil for never.
	asked *time.Time
	// at is the tick it is on the wheel for, 0 for none; due is its slot, zero for
	// a look that isn't one.
	at  int64
	due time.Time
}

func (w *Watcher) newEntry(s store.Watched) (*entry, error) {
	address, err := monitor.ParseAddress(s.Type, s.Address)
	if err != nil {
		return nil, fmt.Errorf("service %d: %w", s.ID, err)
	}
	return &entry{
		Service: s.Service, asked: s.Asked, interval: w.intervalOf(s.Service), condition: monitor.NewCondition(s.Status, s.Downs),
		target: probe.Target{
			Address: address, Timeout: time.Duration(s.Timeout) * time.Second, Body: s.Body, Region: s.Region,
		},
	}, nil
}

func (w *Watcher) intervalOf(s monitor.Service) time.Duration {
	if s.Interval == 0 {
		return w.Interval
	}
	return time.Duration(s.Interval) * time.Second
}

// replace brings the entries of the shards up to date with the services that
// there are. missed says since when checks of a shard may not have been begun.
func (w *Watcher) replace(shards map[int]time.Time, found []store.Watched, now time.Time) {
	there := map[monitor.ServiceID]bool{}
	fresh := 0
	for _, s := range found {
		there[s.ID] = true
		if s.Status == monitor.Pending {
			fresh++
		}
	}
	for id := range w.entries {
		if _, looked := shards[id.Shard()]; looked && !there[id] {
			delete(w.entries, id)
		}
	}
	soon := max(time.Second, time.Duration(fresh)*time.Millisecond)
	for _, s := range found {
		w.replaceOne(s, shards[s.ID.Shard()], now, soon)
	}
}

func (w *Watcher) replaceOne(s store.Watched, missed, now time.Time, soon time.Duration) {
	old := w.entries[s.ID]
	if old != nil && old.SameChecks(s.Service) && old.interval == w.intervalOf(s.Service) {
		old.Service, old.Generation = s.Service, s.Generation
		if old.condition.Status != s.Status {
			old.condition = monitor.NewCondition(s.Status, s.Downs)
			w.wheel.put(old, now.Add(spread(s.ID, soon)))
		} else if s.Asked != nil && (old.asked == nil || s.Asked.After(*old.asked)) && !old.running {
			old.due = time.Time{}
			w.wheel.put(old, now)
		}
		old.asked = s.Asked
		return
	}
	e, err := w.newEntry(s)
	if err != nil {
		w.Logger.Error("A service can't be checked.", "error", err)
		return
	}
	w.entries[s.ID] = e
	e.due = nextSlot(s.ID, e.interval, now)
	switch slot := e.due.Add(-e.interval); {
	case s.Status == monitor.Pending:
		e.due = time.Time{}
		w.wheel.put(e, now.Add(spread(s.ID, soon)))
	case !missed.IsZero() && slot.After(missed) && now.Sub(missed) < catchUp:
		w.wheel.put(e, now.Add(spread(s.ID, soon/2)))
	default:
		w.wheel.put(e, e.due)
	}
}

// catchUp is how long ago another server may have left what is taken over, for
// the slots since to be made up for. After longer all wait for their next slot,
// else everything would be checked at once.
const catchUp = 15 * time.Second
