package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/probe"
	"steward/internal/store"
)

// Prober makes one check.
type Prober interface {
	Check(ctx context.Context, t probe.Target) monitor.Result
}

// Options are what a Watcher is made of.
type Options struct {
	Store  *store.Store
	Prober Prober
	Issues outage.IssueTracker
	Logger *slog.Logger
	// Interval is between the checks of a service that has none of its own.
	Interval time.Duration
	Rules    monitor.Rules
	// Canaries are checked to tell an outage of theirs from one of ours.
	Canaries []probe.Target
	// Lease is how long another server waits before it takes over what this one
	// checked; 0 means 3 s.
	Lease time.Duration
}

// Watcher checks the services of the shards that this server has.
type Watcher struct {
	Options
	canary canary
	// wake has what waits recorded at once.
	wake chan struct{}

	mu     sync.Mutex
	wheel  *wheel
	shards map[int]*shard
	// entries are the services of the shards.
	entries map[monitor.ServiceID]*entry
	// changes and samples wait to be recorded.
	changes []change
	samples samples
	// certificates are ends of certificates that the store doesn't know yet.
	certificates map[monitor.ServiceID]time.Time
	// busy counts the checks that go on, by target.
	busy map[string]int
	// until is how long what was leased is ours; alone reports whether there is nobody
	// else to take it over.
	until time.Time
	alone bool
	stats Stats

	checks sync.WaitGroup
}

// shard is one that this server has.
type shard struct {
	epoch, changed int64
}

// Stats are what a Watcher has done since it was made, and what it has to do.
type Stats struct {
	Services, Shards int
	// Checks that ended, those of them that said nothing, and those that go on.
	Checks, Inconclusive, Running int
	// Late sums up by how much checks began after their slot.
	Late time.Duration
	// Waiting are changes and results that the store hasn't taken yet.
	WaitingChanges, WaitingSamples int
}

// New makes a Watcher.
func New(o Options) *Watcher {
	if o.Lease == 0 {
		o.Lease = 3 * time.Second
	}
	w := &Watcher{
		Options: o, canary: canary{prober: o.Prober, targets: o.Canaries, log: o.Logger}, wake: make(chan struct{}, 1),
		wheel: newWheel(time.Now()), shards: map[int]*shard{}, entries: map[monitor.ServiceID]*entry{},
		busy: map[string]int{}, samples: samples{}, certificates: map[monitor.ServiceID]time.Time{},
	}
	return w
}

// Run checks until ctx ends, then waits for the checks that go on, at most a
// second, and records what they found.
func (w *Watcher) Run(ctx context.Context) {
	var keeper sync.WaitGroup
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	checking, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	keeper.Go(func() { w.keep(keeping) })
	keeper.Go(func() { w.upkeep(keeping) })
	w.releaseAll(ctx, checking)
	abandonment := time.AfterFunc(time.Second, abandon)
	w.checks.Wait()
	abandonment.Stop()
	stop()
	keeper.Wait()
}

// releaseAll releases what is due, tick by tick.
func (w *Watcher) releaseAll(ctx, checking context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			w.release(checking, now)
		}
	}
}

// release begins all checks that are due.
func (w *Watcher) release(ctx context.Context, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ours := w.ours(now)
	for _, e := range w.wheel.advance(now) {
		switch {
		case w.entries[e.ID] != e || e.running:
		case !ours:
			w.wheel.put(e, nextSlot(e.ID, e.interval, now))
		default:
			w.begin(ctx, e, now)
		}
	}
}

// ours reports whether what was leased still is: who can't reach the store any more
// must stop before others begin. Alone, it goes on from memory.
func (w *Watcher) ours(now time.Time) bool { return w.alone || now.Before(w.until) }

// Checks of one target that may go on at once; more are not begun. It keeps a
// target that hangs, and those who share it, from using up this machine.
const mostPerTarget = 2000

func (w *Watcher) begin(ctx context.Context, e *entry, now time.Time) {
	if w.busy[e.target.Address.Host] >= mostPerTarget {
		w.ended(e, monitor.Result{Started: now, Class: monitor.Inconclusive, Detail: "Too many checks of the same host go on."})
		return
	}
	w.busy[e.target.Address.Host]++
	w.stats.Running++
	if !e.due.IsZero() {
		w.stats.Late += now.Sub(e.due)
	}
	e.running = true
	w.checks.Go(func() {
		result := w.Prober.Check(ctx, e.target)
		if ctx.Err() != nil {
			return // we stop: nobody knows what it would have found
		}
		if !result.Good() && !w.canary.healthy(ctx) {
			result.Class, result.Detail = monitor.Inconclusive, "This server can't reach its canaries."
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		e.running = false
		w.stats.Running--
		if w.busy[e.target.Address.Host]--; w.busy[e.target.Address.Host] == 0 {
			delete(w.busy, e.target.Address.Host)
		}
		w.ended(e, result)
	})
}

// ended judges what a check found and has the next one come up.
func (w *Watcher) ended(e *entry, found monitor.Result) {
	w.stats.Checks++
	if found.Class == monitor.Inconclusive {
		w.stats.Inconclusive++
	}
	if w.entries[e.ID] != e {
		return // changed, disabled, deleted or another server's by now
	}
	w.samples.add(monitor.Sample{Service: e.ID, Started: found.Started, Took: found.Took, Class: found.Class})
	if ends := found.CertificateExpiry; !ends.IsZero() && (e.CertificateEnds == nil || !e.CertificateEnds.Equal(ends)) {
		e.CertificateEnds, w.certificates[e.ID] = &ends, ends
	}
	var decision monitor.Decision
	e.condition, decision = e.condition.Judge(found, w.Rules)
	if decision.Change != nil {
		w.changes = append(w.changes, change{Change: *decision.Change, entry: e, generation: e.Generation})
		w.wakeKeeper()
	}
	now := time.Now()
	next := nextSlot(e.ID, e.interval, now)
	e.due = next
	if again := now.Add(w.Rules.Confirm + spread(e.ID, w.Rules.Confirm/3)); decision.Again && again.Before(next) {
		next, e.due = again, time.Time{}
	}
	w.wheel.put(e, next)
}

// wakeKeeper has what waits recorded now.
func (w *Watcher) wakeKeeper() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Stats are the present ones.
func (w *Watcher) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stats
	s.Services, s.Shards, s.WaitingChanges, s.WaitingSamples = len(w.entries), len(w.shards), len(w.changes), w.samples.count()
	return s
}
