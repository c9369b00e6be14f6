package converge

import (
	"context"
	"sync"
	"time"

	"steward/internal/cluster"
)

// relist is how soon the list of databases is asked for again after a failure.
const relist = time.Second

// target is what is remembered of a database between two looks. Nothing of it
// has to survive.
type target struct {
	// adopted reports whether it was brought to its spec since this process started.
	adopted bool
	// downSince is when it was first seen not serving, fewerSince when with fewer
	// nodes than it should have; zero while all is well.
	downSince, fewerSince time.Time
	// tries counts the looks that couldn't bring it back, and trouble is what was said of that last.
	tries   int
	trouble string

	due  time.Time
	busy bool
	// again asks for another look right after the one that goes on, and nudge tells
	// that one.
	again bool
	nudge chan struct{}
}

// result is what a look leaves behind.
type result struct {
	id    cluster.ID
	after target
	wait  time.Duration
}

// round decides who is looked at when. All of its state belongs to run; looks
// get a copy of what is remembered and hand it back.
type round struct {
	every   time.Duration
	slots   int
	changes <-chan cluster.ID
	list    func(context.Context) ([]cluster.ID, error)
	// look returns what to remember and when to look next.
	look func(context.Context, cluster.ID, target) (target, time.Duration)

	ended   chan result
	targets map[cluster.ID]*target
	listDue time.Time
	looks   sync.WaitGroup
}

// run goes on until ctx ends and waits for the looks that are under way.
func (r *round) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			r.drain()
			return
		case id := <-r.changes:
			r.changed(id)
		case v := <-r.ended:
			r.after(v)
		case <-timer.C:
		}
		if !time.Now().Before(r.listDue) {
			r.relist(ctx)
		}
		timer.Reset(time.Until(r.begin(ctx)))
	}
}

func (r *round) drain() {
	gone := make(chan struct{})
	go func() { r.looks.Wait(); close(gone) }()
	for {
		select {
		case <-r.ended:
		case <-gone:
			return
		}
	}
}

// changed makes a database due now. One that isn't known yet comes with the list.
func (r *round) changed(id cluster.ID) {
	p := r.targets[id]
	switch {
	case p == nil:
		r.listDue = time.Time{}
	case p.busy:
		p.again = true
		select {
		case p.nudge <- struct{}{}:
		default:
		}
	default:
		p.due = time.Time{}
	}
}

func (r *round) after(v result) {
	p := r.targets[v.id]
	again := p.again
	*p = v.after
	p.busy, p.again, p.due = false, false, time.Now().Add(v.wait)
	if again {
		p.due = time.Time{}
	}
}

// relist learns which databases there are.
func (r *round) relist(ctx context.Context) {
	ids, err := r.list(ctx)
	if err != nil {
		r.listDue = time.Now().Add(relist)
		return
	}
	r.listDue = time.Now().Add(r.every)
	known := make(map[cluster.ID]bool, len(ids))
	for _, id := range ids {
		known[id] = true
		if r.targets[id] == nil {
			r.targets[id] = &target{}
		}
	}
	for id, p := range r.targets {
		if !known[id] && !p.busy {
			delete(r.targets, id)
		}
	}
}

// begin starts the looks that are due, as far as there are slots, and returns
// when the next is.
func (r *round) begin(ctx context.Context) time.Time {
	now, next, busy := time.Now(), r.listDue, 0
	for _, p := range r.targets {
		if p.busy {
			busy++
		}
	}
	for id, p := range r.targets {
		switch {
		case p.busy:
		case p.due.After(now):
			if p.due.Before(next) {
				next = p.due
			}
		case busy < r.slots: // the others begin when one has ended
			busy++
			p.busy, p.nudge = true, make(chan struct{}, 1)
			before := *p
			r.looks.Go(func() {
				after, wait := r.look(ctx, id, before)
				r.ended <- result{id, after, wait}
			})
		}
	}
	return next
}
