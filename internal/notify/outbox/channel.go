package outbox

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/account"
	"steward/internal/failpoint"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/store"
	"steward/internal/wait"
)

// channel sends the notices of one channel.
type channel struct {
	o      *Options
	sender notify.Sender
	claim  store.NoticeClaim
	// slots is how many notices are being sent at once.
	slots int
	// unsure reports whether notices may be claimed by this channel that it knows nothing
	// of: at the start, and after a claim whose answer was lost.
	unsure bool
	// signal says that there may be something to send.
	signal  chan struct{}
	sending sync.WaitGroup

	mu      sync.Mutex
	flights map[monitor.NoticeID]*flight
	// down reports whether nothing could be sent at the last attempt, and hastened when
	// all that waited was last made due for that being over.
	down     bool
	hastened time.Time
}

// flight is a notice that is being sent.
type flight struct {
	recipient string
	account   account.ID
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

// newChannel makes a channel; name sets it apart from the server's others.
func newChannel(o *Options, sender notify.Sender, name string, claim store.NoticeClaim) *channel {
	claim.Holder, claim.Each, claim.Lease = o.Holder+name, perRecipient, o.Lease
	most := slots
	if slices.Contains(claim.Channels, monitor.AccountChannel) && !claim.Others {
		most, claim.EachAccount = accountSlots, perAccount
	}
	return &channel{o: o, sender: sender, claim: claim, slots: most, unsure: true, signal: make(chan struct{}, 1), flights: map[monitor.NoticeID]*flight{}}
}

// look has the channel look for what is due.
func (c *channel) look() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

// run takes up what is due until ctx ends, and waits for what is being sent.
func (c *channel) run(ctx context.Context) {
	sweep, renew := time.NewTicker(c.o.Sweep), time.NewTicker(c.o.Lease/4)
	defer sweep.Stop()
	defer renew.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-renew.C:
			c.renew(ctx)
		case <-c.signal:
			c.takeUp(ctx)
		case <-sweep.C:
			c.takeUp(ctx)
		}
	}
	c.sending.Wait()
}

// takeUp begins to send what is due, as far as slots are free.
func (c *channel) takeUp(ctx context.Context) {
	if c.unsure && !c.release(ctx) {
		return
	}
	for ctx.Err() == nil {
		claim := c.wanted()
		if claim.Most <= 0 {
			return
		}
		now := c.o.Now()
		// A claim that was cut off when steward stops could be made all the same, and
		// nobody would give it back.
		last, cancel := outlasting(ctx)
		claimed, err := c.o.Store.ClaimNotices(last, claim)
		cancel()
		if err != nil {
			c.unsure = true
			c.warn(ctx, "look for notices to send", err)
			return
		}
		if len(claimed) == 0 {
			return
		}
		failpoint.Here("notices: claimed")
		for _, n := range claimed {
			c.begin(ctx, n, now)
		}
	}
}

// release makes due what is claimed but isn't being sent.
func (c *channel) release(ctx context.Context) bool {
	released, err := c.o.Store.ReleaseNotices(ctx, c.claim.Holder, c.underWay())
	if err != nil {
		c.warn(ctx, "look for notices that were being sent", err)
		return false
	}
	if released > 0 {
		c.o.Logger.InfoContext(ctx, "notices that were being sent are sent anew", "notices", released)
	}
	c.unsure = false
	return true
}

func (c *channel) underWay() []monitor.NoticeID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.flights))
}

// warn tells of what is tried again, unless it failed because steward stops.
func (c *channel) warn(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil {
		c.o.Logger.WarnContext(ctx, "notices: the store doesn't answer", "doing", doing, "error", err)
	}
}

// wanted is a claim for the free slots.
func (c *channel) wanted() store.NoticeClaim {
	c.mu.Lock()
	defer c.mu.Unlock()
	claim := c.claim
	claim.Most = c.slots - len(c.flights)
	each, ofAccount := map[string]int{}, map[account.ID]int{}
	for id, f := range c.flights {
		claim.AtIt = append(claim.AtIt, id)
		if each[f.recipient]++; each[f.recipient] == perRecipient {
			claim.Busy = append(claim.Busy, f.recipient)
		}
		if ofAccount[f.account]++; ofAccount[f.account] == claim.EachAccount {
			claim.BusyAccounts = append(claim.BusyAccounts, f.account)
		}
	}
	return claim
}

func (c *channel) begin(ctx context.Context, n monitor.Notice, now time.Time) {
	sending, cancel := context.WithCancelCause(ctx)
	f := &flight{recipient: n.Recipient, account: n.Account, renewed: now, cancel: cancel}
	c.mu.Lock()
	c.flights[n.ID] = f
	c.mu.Unlock()
	c.sending.Go(func() {
		defer cancel(nil)
		err := c.sender.Send(sending, n, func() error { return c.mayHandOver(f) })
		failpoint.Here("notices: handed over")
		c.end(ctx, n, err, context.Cause(sending))
		c.mu.Lock()
		delete(c.flights, n.ID)
		c.mu.Unlock()
		c.look()
	})
}

// mayHandOver is asked at the last moment before the other side may have a notice:
// a server that was stopped for a while must not send what others have sent since.
func (c *channel) mayHandOver(f *flight) error {
	failpoint.Here("notices: before hand-over")
	c.mu.Lock()
	defer c.mu.Unlock()
	if margin := c.o.Lease / 10; c.o.Now().Sub(f.renewed) > c.o.Lease-margin {
		return errLost
	}
	return nil
}

// renew prolongs the leases, and calls off what has become another server's.
func (c *channel) renew(ctx context.Context) {
	ids := c.underWay()
	if len(ids) == 0 {
		return
	}
	now := c.o.Now()
	kept, err := c.o.Store.RenewNotices(ctx, c.claim.Holder, ids, c.o.Lease)
	if err != nil {
		c.warn(ctx, "renew the leases of notices", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		switch f := c.flights[id]; {
		case f == nil: // it has ended meanwhile
		case slices.Contains(kept, id):
			f.renewed = now
		default:
			f.cancel(errLost)
		}
	}
}

// end records how an attempt went.
func (c *channel) end(ctx context.Context, n monitor.Notice, err, cause error) {
	now := c.o.Now()
	known, judged := errors.AsType[*notify.Error](err)
	switch {
	case err == nil:
		n = n.Delivered(now)
	case errors.Is(err, errLost), errors.Is(cause, errLost):
		c.o.Logger.WarnContext(ctx, "a notice is another server's by now", "notice", n.ID)
		return
	case cause != nil && !judged: // steward stops
		n.State, n.Due = monitor.NoticePending, now
		c.record(ctx, n)
		return
	default:
		known = notify.AsError(err)
		n = n.Failed(now, known.Problem, known.Permanent)
		c.complain(ctx, n, err)
	}
	if recorded := c.record(ctx, n); n.State == monitor.NoticeSent {
		c.logSent(ctx, n, recorded)
	}
	if c.o.Ended != nil {
		c.o.Ended(n)
	}
	c.judge(ctx, n, known)
}

// logSent is told after the commit: what isn't recorded is sent once more.
func (c *channel) logSent(ctx context.Context, n monitor.Notice, recorded bool) {
	told := about(n)
	if !recorded {
		c.o.Logger.WarnContext(ctx, "a notice was sent, which couldn't be recorded: it will be sent again", told...)
		return
	}
	c.o.Logger.InfoContext(ctx, "notice sent", told...)
}

// about tells notices apart in the log.
func about(n monitor.Notice) []any {
	of, id := "issue", int64(n.Issue)
	if n.Database != 0 {
		of, id = "database", int64(n.Database)
	}
	return []any{"notice", n.ID, of, id, "kind", n.Kind, "channel", n.Channel, "attempts", n.Attempts}
}

func (c *channel) complain(ctx context.Context, n monitor.Notice, err error) {
	message := "notice not sent; it is tried again"
	if n.State == monitor.NoticeFailed {
		message = "notice given up"
	}
	//nolint:sloglint // one of two fixed messages
	c.o.Logger.WarnContext(ctx, message, append(about(n), "due", n.Due, "error", err)...)
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
func (c *channel) record(ctx context.Context, n monitor.Notice) bool {
	hook := c.o.OnSent
	if n.State == monitor.NoticePending {
		hook = nil
	}
	last, cancel := outlasting(ctx)
	defer cancel()
	for round := 1; ; round++ {
		err := c.write(last, n, hook)
		if err != nil && hook != nil && round >= 3 && last.Err() == nil {
			// What the hook writes matters less than that the notice was sent.
			c.o.Logger.ErrorContext(ctx, "a notice's end can't be told to its ticket", "notice", n.ID, "error", err)
			err = c.write(last, n, nil)
		}
		if err == nil || last.Err() != nil {
			return err == nil
		}
		c.o.Logger.WarnContext(ctx, "record that a notice was sent or not", "notice", n.ID, "error", err)
		_ = wait.Sleep(last, min(time.Second, c.o.Sweep))
	}
}

// write records the end in one transaction, and calls the hook unless it is nil.
func (c *channel) write(ctx context.Context, n monitor.Notice, hook func(context.Context, *store.Tx, monitor.Notice) error) error {
	err := c.o.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.EndNotice(ctx, c.claim.Holder, n); err != nil {
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
func (c *channel) judge(ctx context.Context, n monitor.Notice, failure *notify.Error) {
	c.mu.Lock()
	back := failure == nil && c.down && c.o.Now().Sub(c.hastened) > hastenPause
	switch {
	case failure != nil && failure.Down:
		c.down = true
	case back:
		c.down, c.hastened = false, c.o.Now()
	}
	c.mu.Unlock()
	if !back {
		return
	}
	if _, err := c.o.Store.HastenNotices(ctx, n.Channel); err != nil {
		c.warn(ctx, "hasten notices", err)
	}
}
