package operator

import (
	"context"
	"fmt"
	"net/mail"
	"time"

	"steward/internal/config"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/store"
)

// Notices are those of all accounts, or those that couldn't be delivered, newest first.
func (x *Access) Notices(ctx context.Context, failed bool) ([]monitor.Notice, error) {
	of := store.NoticeQuery{}
	if failed {
		of.State = monitor.NoticeFailed
	}
	return x.store.Notices(ctx, of)
}

// RetryNotices has a notice tried again at once, or with id 0 all that failed, and
// tells how many.
func (x *Access) RetryNotices(ctx context.Context, id monitor.NoticeID) (retried int, err error) {
	err = x.store.InTx(ctx, func(tx *store.Tx) error {
		retried, err = tx.RetryNotices(ctx, id)
		return err
	})
	if err == nil && retried == 0 && id != 0 {
		err = fmt.Errorf("there is no notice %d that waits or failed: `steward notice list` shows them", id)
	}
	return retried, err
}

// TestNotice sends a message by the configured mail server, or by a channel when
// one is named, and returns why that failed.
func TestNotice(ctx context.Context, c config.Config, to, channel string) error {
	name := monitor.EmailChannel
	if channel != "" {
		name = channel
	} else if address, err := mail.ParseAddress(to); err != nil || address.Address != to {
		return fmt.Errorf("%q isn't an e-mail address", to)
	}
	senders, err := c.Senders()
	if err != nil {
		return err
	}
	n := monitor.Notice{Kind: monitor.NoticeTest, Channel: name, Recipient: to, Created: time.Now(), Content: monitor.Content{Summary: "steward can reach you"}}
	var sender notify.Sender = notify.Missing{}
	if known, ok := senders[name]; ok {
		sender = known
	}
	defer sender.Close()
	return sender.Send(ctx, n, func() error { return nil })
}
