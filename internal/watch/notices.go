package watch

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

// NoticesOptions are what Notices are made of.
type NoticesOptions struct {
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
)

// Notices sends what is to be told, each notice once.
type Notices struct {
	o        NoticesOptions
	outboxes []*outbox
}

// NewNotices makes Notices; Run sends.
func NewNotices(o NoticesOptions) *Notices {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sweep == 0 {
		o.Sweep = time.Second
	}
	if o.Lease == 0 {
		o.Lease = 2 * time.Minute
	}
	n := &Notices{o: o}
	known := slices.Sorted(maps.Keys(o.Senders))
	for _, channel := range known {
		n.outboxes = append(n.outboxes, newOutbox(&n.o, o.Senders[channel], "/"+channel, store.NoticeClaim{Channels: []string{channel}}))
	}
	n.outboxes = append(n.outboxes, newOutbox(&n.o, notify.Missing{}, "", store.NoticeClaim{Channels: known, Others: true}))
	return n
}

// Run sends until ctx ends, and then ends what it has begun, within seconds.
func (n *Notices) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, b := range n.outboxes {
		running.Go(func() { b.run(ctx) })
	}
	running.Go(func() {
		n.o.Store.ListenNotices(ctx, func() {
			for _, b := range n.outboxes {
				b.look()
			}
		})
	})
	running.Wait()
	for _, b := range n.outboxes {
		b.sender.Close()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
