package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"steward/client"
	"steward/internal/monitor"
	"steward/internal/operator"
)

type issueCommands struct {
	List issueListCommand `cmd:"" help:"List issues that last and those closed within 30 days."`
}

type issueListCommand struct {
	apiFlags
	jsonFlag
}

func (f *issueListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Issues(ctx)
	if err != nil {
		return err
	}
	return printList(s.out, all, f.JSON, []string{"id", "began", "ended", "services", "ticket", "summary"}, func(v client.Issue) []string {
		return []string{
			fmt.Sprint(v.ID), v.Created, cmp.Or(v.Closed, "lasts"), strings.Trim(fmt.Sprint(v.Services), "[]"), fmt.Sprint(v.Entity.ID), v.Entity.Label,
		}
	})
}

type ticketCommands struct {
	List    ticketListCommand    `cmd:"" help:"List the tickets, over the API."`
	View    ticketViewCommand    `cmd:"" help:"Show what happened and what was written, over the API."`
	Write   ticketWriteCommand   `cmd:"" help:"Write to a ticket, over the API."`
	Publish ticketPublishCommand `cmd:"" help:"Have status pages show what was written, or no longer, over the API."`
	Reply   ticketReplyCommand   `cmd:"" help:"Write to a customer's ticket as staff (operators)."`
}

type ticketListCommand struct {
	apiFlags
	jsonFlag
}

func (f *ticketListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Tickets(ctx)
	if err != nil {
		return err
	}
	return printList(s.out, all, f.JSON, []string{"id", "status", "opened", "closed", "summary"}, func(t client.Ticket) []string {
		return []string{fmt.Sprint(t.ID), t.Status, t.Opened, cmp.Or(t.Closed, "-"), t.Summary}
	})
}

type ticketArg struct {
	ID int64 `arg:"" help:"The ticket's id."`
}

type ticketViewCommand struct {
	apiFlags
	jsonFlag
	ticketArg
}

func (f *ticketViewCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	ticket, err := c.Ticket(ctx, f.ID)
	if err != nil {
		return err
	}
	replies, err := c.Replies(ctx, ticket)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, map[string]any{"ticket": ticket, "replies": append([]client.Reply{}, replies...)})
	}
	fmt.Fprintf(s.out, "Ticket %d, %s: %s\n\n", ticket.ID, ticket.Status, printable(ticket.Summary))
	for _, r := range replies {
		public := ""
		if r.Public {
			public = ", public"
		}
		fmt.Fprintf(s.out, "%d  %s  %-9s  %s%s: %s\n", r.ID, r.Created, r.Kind, printable(r.CreatedBy), public, strings.ReplaceAll(printableLines(r.Description), "\n", "\n  "))
	}
	return nil
}

type ticketWriteCommand struct {
	apiFlags
	ticketArg
	publicFlag
	Text string `arg:"" help:"What you have to say."`
}

// publicFlag has what is written shown to everybody.
type publicFlag struct {
	Public bool `help:"Show it on the account's status pages, to everybody."`
}

func (f *ticketWriteCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	if _, err := c.ReplyTo(ctx, client.Ticket{ID: f.ID}, f.Text, f.Public); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "It is in the ticket.")
	return nil
}

type ticketPublishCommand struct {
	apiFlags
	ticketArg
	Reply    int64 `arg:"" help:"The entry's id."`
	Withdraw bool  `help:"Show it no longer."`
}

func (f *ticketPublishCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	if _, err := c.PublishReply(ctx, client.Ticket{ID: f.ID}, f.Reply, !f.Withdraw); err != nil {
		return err
	}
	if f.Withdraw {
		fmt.Fprintln(s.out, "Status pages show it no longer.")
		return nil
	}
	fmt.Fprintln(s.out, "Status pages show it.")
	return nil
}

type ticketReplyCommand struct {
	dataFlag
	staffFlag
	ticketArg
	Text string `arg:"" help:"What you have to say; the customer sees it."`
	publicFlag
	Store string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

func (f *ticketReplyCommand) Run(ctx context.Context, s *streams) error {
	staff, err := f.staff()
	if err != nil {
		return err
	}
	access, err := operator.OpenAccess(ctx, f.Data, f.Store)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	if err := access.Reply(ctx, monitor.TicketID(f.ID), staff, f.Text, f.Public); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "It is in the ticket.")
	return nil
}
