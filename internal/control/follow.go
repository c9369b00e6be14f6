package control

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/store"
)

// EventReader reads changes of the events that somebody sees, each once: those that it has missed,
// then those that happen.
type EventReader struct {
	listener *EventListener
	store    *store.Store
	viewer   store.Viewer
	// read is what has been read in full, at where it is beyond that. sent are the events beyond read, since the
	// hub may begin a batch anew.
	read operation.Snapshot
	at   operation.Position
	sent map[sentEvent]bool
	// start is what has to be read before the hub's batches.
	start operation.Snapshot
}

// sentEvent is one change of an event.
type sentEvent struct {
	xid uint64
	id  operation.ID
}

// Follow begins to read the changes of the events that the caller sees: those after a position that an
// earlier reader had come to, without a gap and none twice, or those from now on. It is nil when the server
// stops. With lists it is told, too, which lists change that no event is of.
func (s *Events) Follow(ctx context.Context, p account.Principal, after string, lists bool) (*EventReader, error) {
	at, ok := operation.ParsePosition(after)
	if after != "" && !ok {
		return nil, fault.NewInvalid("Last-Event-ID", "Must be an id that this stream has sent")
	}
	if !s.Hub.isOpen() {
		return nil, nil //nolint:nilnil // no fault: the client comes again
	}
	// What ends after the snapshot is handed out by the hub, which knows of the listener before: hence the order.
	l := &EventListener{hub: s.Hub, token: p.Token, of: p.Account, batches: make(chan *EventBatch, heldBatches)}
	if lists {
		l.wake = make(chan struct{}, 1)
	}
	if !s.Hub.join(l) {
		return nil, fault.NewPrecondition("Too many follow events now; try again soon.")
	}
	now, err := apart(func() (operation.Snapshot, error) { return s.Store.EventSnapshot(ctx) })
	if err != nil {
		l.Close()
		return nil, fmt.Errorf("follow events: %w", err)
	}
	s.Hub.readFrom(now)
	s.Hub.wake()
	if after == "" {
		at = operation.At(now)
	}
	return &EventReader{listener: l, store: s.Store, viewer: store.ViewerOf(p), read: at.From, at: at, start: now}, nil
}

// Close ends reading.
func (r *EventReader) Close() { r.listener.Close() }

// Position is where the reader is.
func (r *EventReader) Position() operation.Position { return r.at }

// Batches is what Take takes. It is closed when the reader is cut: it was too slow, its token isn't good any
// more, or the server stops.
func (r *EventReader) Batches() <-chan *EventBatch { return r.listener.batches }

// Listed says that Lists has some; never for a reader that wasn't to be told.
func (r *EventReader) Listed() <-chan struct{} { return r.listener.wake }

// Lists are those that have changed since the last time, in no order.
func (r *EventReader) Lists() []store.List {
	r.listener.hub.mu.Lock()
	defer r.listener.hub.mu.Unlock()
	changed := slices.Collect(maps.Keys(r.listener.lists))
	r.listener.lists = nil
	return changed
}

// Missed are the next events that the reader has missed, before any batch; none when there are no more.
func (r *EventReader) Missed(ctx context.Context) ([]FollowedEvent, error) {
	for r.at.String() != operation.At(r.start).String() {
		changed, err := apart(func() ([]operation.Changed, error) { return r.store.ChangedEvents(ctx, &r.viewer, r.at, batchSize) })
		if err != nil {
			return nil, fmt.Errorf("read missed events: %w", err)
		}
		events := batchOf(r.at, shared(changed), false, func(operation.Operation) bool { return true }).Events
		switch {
		case len(changed) == batchSize:
			r.at = events[batchSize-1].Position
		case r.start.NewerThan(r.at.To):
			r.read = r.at.To
			r.at = operation.Position{From: r.at.To, To: r.start}
		default:
			r.read = r.at.To
			r.at = operation.At(r.at.To)
		}
		if len(events) > 0 || len(changed) == 0 && !r.start.NewerThan(r.at.From) {
			return events, nil
		}
	}
	return nil, nil
}

// apart asks the store on a stack of its own: one that has grown for that would be kept for as long as
// somebody follows, a thousand times.
func apart[T any](ask func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		value, err := ask()
		answered <- answer{value, err}
	}()
	a := <-answered
	return a.value, a.err
}

// Take are those events of a batch that haven't been read.
func (r *EventReader) Take(b *EventBatch) []FollowedEvent {
	if !b.At.To.NewerThan(r.read) {
		return nil
	}
	var events []FollowedEvent
	for _, e := range b.Events {
		key := sentEvent{e.Xid, e.ID}
		if r.read.Has(e.Xid) || r.sent[key] {
			continue
		}
		if r.sent == nil {
			r.sent = map[sentEvent]bool{}
		}
		r.sent[key] = true
		if r.read.NewerThan(e.Position.From) {
			e.Position.From = r.read
		}
		r.at = e.Position
		events = append(events, e)
	}
	if b.Last {
		r.read, r.at = b.At.To, operation.At(b.At.To)
		r.sent = nil
		if len(events) > 0 {
			events[len(events)-1].Position = r.at
		}
	}
	return events
}
