package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/config"
	"steward/internal/monitor"
	"steward/internal/operator"
)

type noticeCommands struct {
	List  noticeListCommand  `cmd:"" help:"List what contacts were told, or couldn't be, the newest first (operators)."`
	Retry noticeRetryCommand `cmd:"" help:"Try a notice again at once, or all that failed (operators)."`
	Test  noticeTestCommand  `cmd:"" help:"Send a message by the configured mail server or channel, and say what happened (operators)."`
}

type noticeListCommand struct {
	storeFlags
	jsonFlag
	Failed bool `help:"Only those that couldn't be delivered."`
}

// noticeView is a notice as operators see it with --json.
type noticeView struct {
	ID      int64 `json:"id"`
	Account int64 `json:"account"`
	// Issue is 0 of a maintenance window: then Database is whose that opens at Window.
	Issue     int64      `json:"issue"`
	Database  int64      `json:"database"`
	Window    *time.Time `json:"window"`
	Kind      string     `json:"kind"`
	Channel   string     `json:"channel"`
	Recipient string     `json:"recipient"`
	State     string     `json:"state"`
	Attempts  int        `json:"attempts"`
	Due       time.Time  `json:"due"`
	Problem   string     `json:"problem"`
	Created   time.Time  `json:"created"`
	Sent      *time.Time `json:"sent"`
}

func (c *noticeListCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	all, err := access.Notices(ctx, c.Failed)
	if err != nil {
		return err
	}
	if c.JSON {
		views := make([]noticeView, len(all))
		for i, n := range all {
			views[i] = noticeView{
				int64(n.ID), int64(n.Account), int64(n.Issue), int64(n.Database), windowOf(n), string(n.Kind), n.Channel, n.Recipient, string(n.State),
				n.Attempts, n.Due, n.Problem, n.Created, n.Sent,
			}
		}
		return printJSON(s.out, views)
	}
	rows := make([][]string, len(all))
	for i, n := range all {
		rows[i] = []string{
			fmt.Sprint(n.ID), n.About(), string(n.Kind), n.Channel, n.Recipient, string(n.State), fmt.Sprint(n.Attempts),
			n.Created.UTC().Format(time.RFC3339), nextOf(n), n.Problem,
		}
	}
	return printTable(s.out, []string{"id", "about", "kind", "channel", "recipient", "state", "attempts", "created", "next attempt", "problem"}, rows)
}

// windowOf is when the window opens that a notice tells of; nil of an issue.
func windowOf(n monitor.Notice) *time.Time {
	if n.Database == 0 {
		return nil
	}
	return new(n.Window.UTC())
}

// nextOf is when a notice that waits is tried next.
func nextOf(n monitor.Notice) string {
	if n.State != monitor.NoticePending {
		return ""
	}
	return n.Due.UTC().Format(time.RFC3339)
}

type noticeRetryCommand struct {
	storeFlags
	ID     int64 `arg:"" optional:"" help:"Its id; see steward notice list."`
	Failed bool  `help:"All that couldn't be delivered."`
}

func (c *noticeRetryCommand) Run(ctx context.Context, s *streams) error {
	if (c.ID > 0) == c.Failed {
		return errors.New("name a notice, or give --failed for all that couldn't be delivered")
	}
	access, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	n, err := access.RetryNotices(ctx, monitor.NoticeID(c.ID))
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%d to be tried again at once, while steward is served.\n", n)
	return nil
}

type noticeTestCommand struct {
	To      string `xor:"where" required:"" help:"Address to send a mail to."`
	Channel string `xor:"where" required:"" help:"Name of a channel of the configuration to send a message to."`
	Config  string `help:"Configuration file (YAML)." type:"existingfile"`
}

func (c *noticeTestCommand) Run(ctx context.Context, s *streams) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	if err := operator.TestNotice(ctx, config, c.To, c.Channel); err != nil {
		return err
	}
	if c.Channel != "" {
		fmt.Fprintf(s.out, "The channel %s took the message.\n", c.Channel)
	} else {
		fmt.Fprintf(s.out, "The mail server took the message for %s.\n", c.To)
	}
	return nil
}
