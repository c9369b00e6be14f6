package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/store"
)

// outbox sends the notices of one channel.
type outbox struct {
	o      *NoticesOptions
	sender notify.Sender
	claim  store.NoticeClaim
	// unsure tells that notices may be claimed by this outbox that it knows nothing
	// of: at the start, and after a claim whose answer was lost.
	unsure bool
	// signal says that there may be something to send.
	signal  chan struct{}
	sending sync.WaitGroup

	mu      sync.Mutex
	flights map[monitor.NoticeID]*flight
	// down tells that nothing could be sent at the last attempt, and hastened when
	// all that waited was last made due for that being over.
	down     bool
	hastened time.Time
}

// flight is a notice that is being sent.
type flight struct {
	recipient string
	// renewed is when the lease was last known to be ours; cancel ends the sending.
	renewed time.Time
	cancel  context.CancelCauseFunc
}

// errLost is why the sending of a notice ends that is another server's by now.
var errLost = errors.New("the lease of the notice was lost")

const (
	// settleTime is for how long the store is tried when steward stops.
	settleTime = 5 * time.Second
	// hastenPause keeps a server that only takes so much from being asked for more.
	hastenPause = 30 * time.Second
)

// newOutbox makes an outbox; name tells it from the server's others.
func newOutbox(o *NoticesOptions, sender notify.Sender, name string, claim store.NoticeClaim) *outbox {
	claim.Holder, claim.Each, claim.Lease = o.Holder+name, perRecipient, o.Lease
	return &outbox{o: o, sender: sender, claim: claim, unsure: true, signal: make(chan struct{}, 1), flights: map[monitor.NoticeID]*flight{}}
}

// look has the outbox look for what is due.
func (b *outbox) look() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// run takes up what is due until ctx ends, and waits for what is being sent.
func (b *outbox) run(ctx context.Context) {
	sweep, renew := time.NewTicker(b.o.Sweep), time.NewTicker(b.o.Lease/4)
	defer sweep.Stop()
	defer renew.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-renew.C:
			b.renew(ctx)
		case <-b.signal:
			b.takeUp(ctx)
		case <-sweep.C:
			b.takeUp(ctx)
		}
	}
	b.sending.Wait()
}

// takeUp begins to send what is due, as far as slots are free.
func (b *outbox) takeUp(ctx context.Context) {
	if b.unsure && !b.release(ctx) {
		return
	}
	for ctx.Err() == nil {
		claim := b.wanted()
		if claim.Most <= 0 {
			return
		}
		now := b.o.Now()
		// A claim that was cut off when steward stops could be made all the same, and
		// nobody would give it back.
		last, cancel := outlasting(ctx)
		claimed, err := b.o.Store.ClaimNotices(last, claim)
		cancel()
		if err != nil {
			b.unsure = true
			b.warn(ctx, "look for notices to send", err)
			return
		}
		if len(claimed) == 0 {
			return
		}
		failpoint.Here("notices: claimed")
		for _, n := range claimed {
			b.begin(ctx, n, now)
		}
	}
}

// release makes due what is claimed but isn't being sent.
func (b *outbox) release(ctx context.Context) bool {
	released, err := b.o.Store.ReleaseNotices(ctx, b.claim.Holder, b.underWay())
	if err != nil {
		b.warn(ctx, "look for notices that were being sent", err)
		return false
	}
	if released > 0 {
		b.o.Logger.InfoContext(ctx, "notices that were being sent are sent anew", "notices", released)
	}
	b.unsure = false
	return true
}

func (b *outbox) underWay() []monitor.NoticeID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.flights))
}

// warn tells of what is tried again, unless it failed because steward stops.
func (b *outbox) warn(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil {
		b.o.Logger.WarnContext(ctx, "notices: the store doesn't answer", "doing", doing, "error", err)
	}
}

// wanted is a claim for the free slots.
func (b *outbox) wanted() store.NoticeClaim {
	b.mu.Lock()
	defer b.mu.Unlock()
	claim := b.claim
	claim.Most = slots - len(b.flights)
	each := map[string]int{}
	for id, f := range b.flights {
		claim.AtIt = append(claim.AtIt, id)
		if each[f.recipient]++; each[f.recipient] == perRecipient {
			claim.Busy = append(claim.Busy, f.recipient)
		}
	}
	return claim
}

func (b *outbox) begin(ctx context.Context, n monitor.Notice, now time.Time) {
	sending, cancel := context.WithCancelCause(ctx)
	f := &flight{recipient: n.Recipient, renewed: now, cancel: cancel}
	b.mu.Lock()
	b.flights[n.ID] = f
	b.mu.Unlock()
	b.sending.Go(func() {
		defer cancel(nil)
		err := b.sender.Send(sending, n, func() error { return b.mayHandOver(f) })
		failpoint.Here("notices: handed over")
		b.end(ctx, n, err, context.Cause(sending))
		b.mu.Lock()
		delete(b.flights, n.ID)
		b.mu.Unlock()
		b.look()
	})
}

// mayHandOver is asked at the last moment before the other side may have a notice:
// a server that was stopped for a while must not send what others have sent since.
func (b *outbox) mayHandOver(f *flight) error {
	failpoint.Here("notices: before hand-over")
	b.mu.Lock()
	defer b.mu.Unlock()
	if margin := b.o.Lease / 10; b.o.Now().Sub(f.renewed) > b.o.Lease-margin {
		return errLost
	}
	return nil
}

// renew prolongs the leases, and calls off what has become another server's.
func (b *outbox) renew(ctx context.Context) {
	ids := b.underWay()
	if len(ids) == 0 {
		return
	}
	now := b.o.Now()
	kept, err := b.o.Store.RenewNotices(ctx, b.claim.Holder, ids, b.o.Lease)
	if err != nil {
		b.warn(ctx, "renew the leases of notices", err)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		switch f := b.flights[id]; {
		case f == nil: // it has ended meanwhile
		case slices.Contains(kept, id):
			f.renewed = now
		default:
			f.cancel(errLost)
		}
	}
}

// end records how an attempt went.
func (b *outbox) end(ctx context.Context, n monitor.Notice, err, cause error) {
	now := b.o.Now()
	known, judged := errors.AsType[*notify.Error](err)
	switch {
	case err == nil:
		n = n.Delivered(now)
	case errors.Is(err, errLost), errors.Is(cause, errLost):
		b.o.Logger.WarnContext(ctx, "a notice is another server's by now", "notice", n.ID)
		return
	case cause != nil && !judged: // steward stops
		n.State, n.Due = monitor.NoticePending, now
		b.record(ctx, n)
		return
	default:
		known = notify.AsError(err)
		n = n.Failed(now, known.Problem, known.Permanent)
		b.complain(ctx, n, err)
	}
	if recorded := b.record(ctx, n); n.State == monitor.NoticeSent {
		b.logSent(ctx, n, recorded)
	}
	if b.o.Ended != nil {
		b.o.Ended(n)
	}
	b.judge(ctx, n, known)
}

// logSent is told after the commit: what isn't recorded is sent once more.
func (b *outbox) logSent(ctx context.Context, n monitor.Notice, recorded bool) {
	told := about(n)
	if !recorded {
		b.o.Logger.WarnContext(ctx, "a notice was sent, which couldn't be recorded: it will be sent again", told...)
		return
	}
	b.o.Logger.InfoContext(ctx, "notice sent", told...)
}

// about tells notices apart in the log.
func about(n monitor.Notice) []any {
	of, id := "issue", int64(n.Issue)
	if n.Database != 0 {
		of, id = "database", int64(n.Database)
	}
	return []any{"notice", n.ID, of, id, "kind", n.Kind, "channel", n.Channel, "attempts", n.Attempts}
}

func (b *outbox) complain(ctx context.Context, n monitor.Notice, err error) {
	message := "notice not sent; it is tried again"
	if n.State == monitor.NoticeFailed {
		message = "notice given up"
	}
	//nolint:sloglint // one of two fixed messages
	b.o.Logger.WarnContext(ctx, message, append(about(n), "due", n.Due, "error", err)...)
}

// outlasting is ctx with a moment more after its end, for what is said to the store.
func outlasting(ctx context.Context) (last context.Context, end context.CancelFunc) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(settleTime, cancel) })
	return last, func() { stop(); cancel() }
}

// record writes the end down, for as long as it takes: a notice that was sent must
// not be sent again because the store was away. When steward stops it is tried for
// a moment more. It reports whether the end is recorded.
func (b *outbox) record(ctx context.Context, n monitor.Notice) bool {
	hook := b.o.OnSent
	if n.State == monitor.NoticePending {
		hook = nil
	}
	last, cancel := outlasting(ctx)
	defer cancel()
	for round := 1; ; round++ {
		err := b.write(last, n, hook)
		if err != nil && hook != nil && round >= 3 && last.Err() == nil {
			// What the hook writes matters less than that the notice was sent.
			b.o.Logger.ErrorContext(ctx, "a notice's end can't be told to its ticket", "notice", n.ID, "error", err)
			err = b.write(last, n, nil)
		}
		if err == nil || last.Err() != nil {
			return err == nil
		}
		b.o.Logger.WarnContext(ctx, "record that a notice was sent or not", "notice", n.ID, "error", err)
		sleep(last, min(time.Second, b.o.Sweep))
	}
}

// write records the end in one transaction, and calls the hook unless it is nil.
func (b *outbox) write(ctx context.Context, n monitor.Notice, hook func(context.Context, *store.Tx, monitor.Notice) error) error {
	err := b.o.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.EndNotice(ctx, b.claim.Holder, n); err != nil {
			return err
		}
		if hook == nil {
			return nil
		}
		if err := hook(ctx, tx, n); err != nil {
			return &hookError{err}
		}
		return nil
	})
	if _, ofHook := errors.AsType[*hookError](err); !ofHook && fault.IsKind(err, fault.NotFound) {
		return nil // recorded before, or another server's by now
	}
	return err
}

// hookError keeps the hook's faults apart from the store's.
type hookError struct{ error }

func (e *hookError) Unwrap() error { return e.error }

// judge keeps in mind whether the channel works, and has all that waits for it sent
// when it does again.
func (b *outbox) judge(ctx context.Context, n monitor.Notice, failure *notify.Error) {
	b.mu.Lock()
	back := failure == nil && b.down && b.o.Now().Sub(b.hastened) > hastenPause
	switch {
	case failure != nil && failure.Down:
		b.down = true
	case back:
		b.down, b.hastened = false, b.o.Now()
	}
	b.mu.Unlock()
	if !back {
		return
	}
	if _, err := b.o.Store.HastenNotices(ctx, n.Channel); err != nil {
		b.warn(ctx, "hasten notices", err)
	}
}
