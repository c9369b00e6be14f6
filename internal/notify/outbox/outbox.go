// Package outbox sends the notices that the store holds, each once, by the channels
// that the operator configured.
package outbox

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/store"
)

// Options are what an Outbox is made of.
type Options struct {
	Store *store.Store
	// Senders are the channels by their names. What is for any other is given up.
	Senders map[string]notify.Sender
	// Holder names this server among all on the store, and is the same when it is
	// started again: what it was sending when it died is then sent at once.
	Holder string
	// OnSent, unless nil, is called in the transaction that records that a notice was
	// sent or given up, perhaps several times for one: with what it writes.
	OnSent func(ctx context.Context, tx *store.Tx, n monitor.Notice) error
	// Ended, unless nil, is called after each attempt, once.
	Ended  func(n monitor.Notice)
	Logger *slog.Logger
	// Now is the store's clock; time.Now when nil.
	Now func() time.Time
	// Sweep is the time between two looks for what nobody told of, such as a retry
	// that has become due; a second unless set.
	Sweep time.Duration
	// Lease is after how long a server that gives no sign of life loses what it is
	// sending to the others; two minutes unless set. Long, since a server that the
	// store lost sight of may have sent it and not been able to say so.
	Lease time.Duration
}

const (
	// slots is how many notices of a channel are being sent at once, and perRecipient
	// how many of them a claim takes for one recipient: who answers slowly keeps the
	// others from less than half.
	slots        = 16
	perRecipient = 4
	// accountSlots and perAccount are the same for the channels that accounts set up, of which one may have many: all of an account's
	// receivers together, if they answer slowly, keep those of others from a small part.
	accountSlots = 64
	perAccount   = 4
)

// Outbox sends notices, each once.
type Outbox struct {
	o        Options
	channels []*channel
}

// New makes an Outbox; Run sends.
func New(o Options) *Outbox {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sweep == 0 {
		o.Sweep = time.Second
	}
	if o.Lease == 0 {
		o.Lease = 2 * time.Minute
	}
	b := &Outbox{o: o}
	known := slices.Sorted(maps.Keys(o.Senders))
	for _, name := range known {
		b.channels = append(b.channels, newChannel(&b.o, o.Senders[name], "/"+name, store.NoticeClaim{Channels: []string{name}}))
	}
	b.channels = append(b.channels, newChannel(&b.o, notify.Missing{}, "", store.NoticeClaim{Channels: known, Others: true}))
	return b
}

// Run sends until ctx ends, and then ends what it has begun, within seconds.
func (b *Outbox) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range b.channels {
		running.Go(func() { c.run(ctx) })
	}
	running.Go(func() {
		b.o.Store.ListenNotices(ctx, func() {
			for _, c := range b.channels {
				c.look()
			}
		})
	})
	running.Wait()
	for _, c := range b.channels {
		c.sender.Close()
	}
}
