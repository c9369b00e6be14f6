package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"steward/client"
	"steward/internal/account"
)

type eventCommands struct {
	List  eventListCommand  `cmd:"" help:"List the newest events."`
	Audit eventAuditCommand `cmd:"" help:"List who changed what in the account, and what was refused, newest first."`
}

type eventAuditCommand struct {
	apiFlags
	jsonFlag
	Most int `default:"25" help:"How many."`
}

func (f *eventAuditCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Changes(ctx, f.Most)
	if err != nil {
		return err
	}
	all = all[:min(len(all), f.Most)]
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, l := range all {
		line := account.Audit{Action: l.Action, Path: l.Path, Client: account.ClientID(deref(l.ClientID)), Token: account.TokenID(deref(l.TokenID))}
		rows[i] = []string{l.Datetime, cmp.Or(printable(l.Username), "-"), tokenText(line), cmp.Or(deref(l.IP), "-"), fmt.Sprint(l.Status), what(line)}
	}
	return printTable(s.out, []string{"time", "user", "token", "from", "status", "what"}, rows)
}

// deref is what p points to; zero for nil.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

type eventListCommand struct {
	apiFlags
	jsonFlag
	Most   int  `default:"25" help:"How many."`
	Follow bool `help:"Print events as they happen, until you end it; --most has no effect."`
}

func (f *eventListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	if f.Follow {
		return f.follow(ctx, s, c)
	}
	all, err := c.Events(ctx, f.Most)
	if err != nil {
		return err
	}
	all = all[:min(len(all), f.Most)]
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, e := range all {
		rows[i] = eventRow(e)
	}
	return printTable(s.out, []string{"created", "action", "database", "status", "done", "by", "message"}, rows)
}

func eventRow(e client.Event) []string {
	return []string{e.Created, e.Action, e.Entity.Label, e.Status, fmt.Sprintf("%d%%", e.PercentComplete), e.Username, e.Message}
}

// follow prints events as they happen, as JSON one to a line.
func (f *eventListCommand) follow(ctx context.Context, s *streams, c *client.Client) error {
	err := c.FollowEvents(ctx, func(e client.Event) error {
		if f.JSON {
			return printJSONLine(s.out, e)
		}
		_, err := fmt.Fprintln(s.out, printable(strings.Join(eventRow(e), "  ")))
		return err
	})
	if ctx.Err() != nil {
		return nil // it was ended by hand
	}
	return err
}
