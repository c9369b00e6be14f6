package control

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/operation"
	"steward/internal/store"
)

// EventHub hands changes of events on to those who follow them. However many do, the store is listened to
// by one connection, and asked once for each change.
type EventHub struct {
	store *store.Store
	log   *slog.Logger
	// principals are forgotten before anybody is told of a change.
	principals *principals
	// woken asks for a look at the store.
	woken chan struct{}

	mu        sync.Mutex
	listeners map[*EventListener]bool
	// read is what has been handed out; nil while nobody listens. Each listener sees to it that it isn't
	// newer than what it reads by itself.
	read *operation.Snapshot
	// hints are those that are to be handed out.
	hints map[store.Hint]bool
	// open reports whether there may be listeners: from Run's begin to its end.
	open bool
}

// EventListener is one who follows events.
type EventListener struct {
	hub   *EventHub
	token account.TokenID
	of    account.ID
	// batches are closed when it is cut: it is too slow, its token isn't good any more, or the server stops.
	batches chan *EventBatch
	cut     sync.Once
	// lists are those that have changed and that it wasn't told of; wake says that there are some, and is nil for one who isn't to be told.
	lists map[store.List]bool
	wake  chan struct{}
}

// EventBatch are changes of events between two snapshots, some more than once.
type EventBatch struct {
	Events []FollowedEvent
	At     operation.Position
	// Last reports whether nothing more of the later snapshot is to come.
	Last bool
}

// FollowedEvent is an event with the position after it.
type FollowedEvent struct {
	*ChangedEvent
	Position operation.Position
}

// ChangedEvent is an event that has changed, which many may be shown.
type ChangedEvent struct {
	operation.Changed
	once sync.Once
	text []byte
}

// Text is what render makes of the event, which it does for the first who asks.
func (e *ChangedEvent) Text(render func(operation.Operation) []byte) []byte {
	e.once.Do(func() { e.text = render(e.Operation) })
	return e.text
}

// shared are changes as many are shown them.
func shared(changed []operation.Changed) []*ChangedEvent {
	all := make([]*ChangedEvent, len(changed))
	for i, c := range changed {
		all[i] = &ChangedEvent{Changed: c}
	}
	return all
}

// Bounds of following.
const (
	// heldBatches is how many batches wait for a listener before it is cut.
	heldBatches = 16
	// batchSize is how many events are read at once.
	batchSize = 200
	// lookAnyway is how often the store is asked without word from it, and whether tokens are good.
	lookAnyway = 5 * time.Second
	// mostListeners bounds the memory that they take, mostOfAccount what one account takes of it.
	mostListeners, mostOfAccount = 5000, 1000
)

func newEventHub(d Deps) *EventHub {
	return &EventHub{store: d.Store, log: d.Logger, principals: d.principals, woken: make(chan struct{}, 1), listeners: map[*EventListener]bool{}, hints: map[store.Hint]bool{}}
}

// Run hands out changes until ctx ends, and cuts all listeners then.
func (h *EventHub) Run(ctx context.Context) {
	h.setOpen(true)
	defer h.Close()
	var listening sync.WaitGroup
	defer listening.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	listening.Go(func() { h.store.ListenEvents(ctx, h.wake, h.hint) })
	tick := time.NewTicker(lookAnyway)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.woken:
		case <-tick.C:
			h.check(ctx)
		}
		if err := h.look(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "look for changes of events", "error", err) // the tick tries again
		}
		if err := h.handHints(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "tell of lists that have changed", "error", err) // the tick tries again
		}
	}
}

func (h *EventHub) wake() {
	select {
	case h.woken <- struct{}{}:
	default:
	}
}

// hint has those who see the lists told that they have changed.
func (h *EventHub) hint(hints ...store.Hint) {
	h.mu.Lock()
	for _, one := range hints {
		h.hints[one] = true
	}
	h.mu.Unlock()
	h.wake()
}

// handHints tells each listener which of the lists that it sees have changed.
func (h *EventHub) handHints(ctx context.Context) error {
	h.mu.Lock()
	hints := h.hints
	h.hints = map[store.Hint]bool{}
	h.mu.Unlock()
	listeners := slices.DeleteFunc(h.all(), func(l *EventListener) bool { return l.wake == nil })
	if len(hints) == 0 || len(listeners) == 0 {
		return nil
	}
	good, err := h.store.StillFollowing(ctx, tokensOf(listeners))
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		maps.Copy(h.hints, hints)
		return err
	}
	for _, l := range listeners {
		who, ok := good[l.token]
		if !ok {
			l.Close()
			continue
		}
		for one := range hints {
			if who.Sees(one) {
				l.changed(one.List)
			}
		}
	}
	return nil
}

// changed notes that a list has.
func (l *EventListener) changed(list store.List) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if l.lists == nil {
		l.lists = map[store.List]bool{}
	}
	l.lists[list] = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (h *EventHub) setOpen(open bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = open
}

// Close cuts all listeners and takes no more.
func (h *EventHub) Close() {
	h.setOpen(false)
	for _, l := range h.all() {
		l.Close()
	}
}

// Listeners is how many follow events.
func (h *EventHub) Listeners() int { return len(h.all()) }

func (h *EventHub) all() []*EventListener {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]*EventListener, 0, len(h.listeners))
	for l := range h.listeners {
		list = append(list, l)
	}
	return list
}

// since is what has been handed out; nil when nobody listens.
func (h *EventHub) since() *operation.Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) == 0 {
		h.read = nil
	}
	return h.read
}

// look hands out what has changed since the last time.
func (h *EventHub) look(ctx context.Context) error {
	read := h.since()
	if read == nil {
		return nil
	}
	now, err := h.store.EventSnapshot(ctx)
	if err != nil {
		return err
	}
	at := operation.Position{From: *read, To: now}
	for {
		changed, err := h.store.ChangedEvents(ctx, nil, at, batchSize)
		if err != nil {
			return err
		}
		last := len(changed) < batchSize
		if err := h.handOut(ctx, at, changed, last); err != nil {
			return err
		}
		if last {
			break
		}
		at.Xid, at.ID = changed[batchSize-1].Xid, changed[batchSize-1].ID
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read == read { // else somebody joined who has read less
		h.read = &now
	}
	return nil
}

// readFrom has what isn't in a snapshot handed out.
func (h *EventHub) readFrom(s operation.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.read == nil || h.read.NewerThan(s) {
		h.read = &s
	}
}

// handOut gives each listener what it may see.
func (h *EventHub) handOut(ctx context.Context, at operation.Position, changed []operation.Changed, last bool) error {
	if len(changed) == 0 {
		return nil
	}
	// Who is told asks anew what they may, sooner than the request that changed it has forgotten whom tokens stand for, and than an
	// operator's command is noticed.
	h.principals.forget()
	listeners := h.all()
	good, granted, err := h.rights(ctx, listeners, changed)
	if err != nil {
		return err
	}
	events := shared(changed)
	for _, l := range listeners {
		who, ok := good[l.token]
		if !ok {
			l.Close()
			continue
		}
		l.give(batchOf(at, events, last, func(o operation.Operation) bool {
			return o.Account == who.Account && (!who.Restricted || o.Owner == who.User || granted[who.User][o.Cluster])
		}))
	}
	return nil
}

// rights are whom the listeners' tokens stand for now, and the grants of those that need them.
func (h *EventHub) rights(ctx context.Context, listeners []*EventListener, changed []operation.Changed) (map[account.TokenID]store.Following, map[account.UserID]map[cluster.ID]bool, error) {
	good, err := h.store.StillFollowing(ctx, tokensOf(listeners))
	if err != nil {
		return nil, nil, err
	}
	var users []account.UserID
	for _, who := range good {
		if who.Restricted {
			users = append(users, who.User)
		}
	}
	if len(users) == 0 {
		return good, nil, nil
	}
	clusters := make([]cluster.ID, len(changed))
	for i, c := range changed {
		clusters[i] = c.Cluster
	}
	granted, err := h.store.GrantsAmong(ctx, users, clusters)
	return good, granted, err
}

func tokensOf(listeners []*EventListener) []account.TokenID {
	tokens := make([]account.TokenID, len(listeners))
	for i, l := range listeners {
		tokens[i] = l.token
	}
	return tokens
}

// check cuts the listeners whose tokens aren't good any more.
func (h *EventHub) check(ctx context.Context) {
	listeners := h.all()
	if len(listeners) == 0 {
		return
	}
	good, err := h.store.StillFollowing(ctx, tokensOf(listeners))
	if err != nil {
		return // the next batch, or check, tells
	}
	for _, l := range listeners {
		if _, ok := good[l.token]; !ok {
			l.Close()
		}
	}
}

// join adds a listener; false when there are too many, or the server stops.
func (h *EventHub) join(l *EventListener) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := 0
	for other := range h.listeners {
		if other.of == l.of {
			own++
		}
	}
	if !h.open || len(h.listeners) >= mostListeners || own >= mostOfAccount {
		return false
	}
	h.listeners[l] = true
	return true
}

// Close ends following.
func (l *EventListener) Close() {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	delete(l.hub.listeners, l)
	l.cut.Do(func() { close(l.batches) })
}

// batchOf are those of the changes that somebody sees.
func batchOf(at operation.Position, changed []*ChangedEvent, last bool, sees func(operation.Operation) bool) *EventBatch {
	b := &EventBatch{At: at, Last: last}
	for _, c := range changed {
		at.Xid, at.ID = c.Xid, c.ID
		if sees(c.Operation) {
			b.Events = append(b.Events, FollowedEvent{c, at})
		}
	}
	return b
}

// give hands a batch over, or cuts a listener that hasn't taken those before it.
func (l *EventListener) give(b *EventBatch) {
	if len(b.Events) == 0 {
		return // what it has read is less than could be: no harm
	}
	l.hub.mu.Lock()
	there := l.hub.listeners[l]
	full := false
	if there {
		select {
		case l.batches <- b:
		default:
			full = true
		}
	}
	l.hub.mu.Unlock()
	if full {
		l.Close()
	}
}

func (h *EventHub) isOpen() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open
}
