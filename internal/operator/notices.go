package operator

import (
	"context"
	"fmt"
	"net/mail"
	"time"

	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/notify"
)

// Notices are those of all accounts, or those that couldn't be delivered, newest first.
func (x *Access) Notices(ctx context.Context, failed bool) ([]monitor.Notice, error) {
	return x.operators().Notices(ctx, failed)
}

// RetryNotices has a notice tried again at once, or with id 0 all that failed, and
// tells how many.
func (x *Access) RetryNotices(ctx context.Context, id monitor.NoticeID) (retried int, err error) {
	retried, err = x.operators().RetryNotices(ctx, id)
	if fault.IsKind(err, fault.NotFound) {
		err = fmt.Errorf("there is no notice %d that waits or failed: `steward notice list` shows them", id)
	}
	return retried, err
}

func (x *Access) operators() *control.Operators {
	return control.New(control.Deps{Store: x.store}).Operators
}

// TestNotice sends a message by the configured mail server, or by a channel when
// one is named, and returns why that failed.
func TestNotice(ctx context.Context, c config.Config, to, channel string) error {
	if address, err := mail.ParseAddress(to); channel == "" && (err != nil || address.Address != to) {
		return fmt.Errorf("%q isn't an e-mail address", to)
	}
	senders, err := c.Senders()
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range senders {
			s.Close()
		}
	}()
	return notify.Test(ctx, senders, to, channel, time.Now())
}
