// Package notify is how notices leave the house: a Sender for each way to reach
// people.
package notify

import (
	"cmp"
	"context"
	"errors"
	"time"

	"steward/internal/monitor"
)

// Sender hands notices over to whoever brings them to people. Its methods may be
// called at the same time.
type Sender interface {
	// Send returns nil once the other side has taken the notice. It asks mayHandOver
	// right before the step after which the other side may have it, and ends with
	// its error when there is one. When ctx ends before that step nothing was handed
	// over; afterwards Send waits a moment for the answer. Errors are an *Error when
	// they say something about the notice or the other side.
	Send(ctx context.Context, n monitor.Notice, mayHandOver func() error) error
	// Close ends what is kept open between notices.
	Close()
}

// Error is why a notice couldn't be sent.
type Error struct {
	// Problem is a sentence for the operator: what went wrong, and what the other
	// side answered. It holds no secret. Customers don't read it.
	Problem string
	// Permanent reports whether trying again is of no use.
	Permanent bool
	// Down reports whether nothing can be sent to anybody just now.
	Down bool
}

// Error implements error.
func (e *Error) Error() string { return e.Problem }

// AsError is what is known of why a notice couldn't be sent. What a sender has no
// words for is transient.
func AsError(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return &Error{Problem: "It couldn't be sent for a reason that the log names."}
}

// Missing is the sender of every channel that isn't configured.
type Missing struct{}

// Send refuses.
func (Missing) Send(_ context.Context, n monitor.Notice, _ func() error) error {
	problem := "No mail server is configured (smtp.url)."
	if n.Channel != monitor.EmailChannel {
		problem = "The channel " + n.Channel + " isn't configured (notify.channels)."
	}
	return &Error{Problem: problem, Permanent: true}
}

// Close does nothing.
func (Missing) Close() {}

// Test sends a message to an address by the mail server, or by a channel when one is named.
func Test(ctx context.Context, senders map[string]Sender, to, channel string, now time.Time) error {
	n := monitor.Notice{
		Kind: monitor.NoticeTest, Channel: cmp.Or(channel, monitor.EmailChannel), Recipient: to, Created: now,
		Content: monitor.Content{Summary: "steward can reach you"},
	}
	var sender Sender = Missing{}
	if known, ok := senders[n.Channel]; ok {
		sender = known
	}
	return sender.Send(ctx, n, func() error { return nil })
}
