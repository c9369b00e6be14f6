package api

import (
	"context"
	"net/http"
	"strconv"

	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/outage"
	"steward/internal/store"
)

type issueView struct {
	ID       int64      `json:"id"`
	Created  string     `json:"created" format:"date-time"`
	Services []int64    `json:"services" nullable:"false"`
	Entity   entityView `json:"entity" doc:"The support ticket of the issue."`
	// Beyond what the cloud's API has.
	Closed   *string `json:"closed" format:"date-time" doc:"null while it lasts."`
	Database *int64  `json:"database_id" doc:"The database that it is about; null of services."`
	Alert    *int64  `json:"alert_id" doc:"The alert definition that opened it; null when none did."`
}

func showIssue(i monitor.Issue) issueView {
	v := issueView{ID: int64(i.ID), Created: showTime(i.Created), Services: make([]int64, len(i.Services)), Closed: optionalTime(i.Closed)}
	cause := outage.Cause(i.Cause)
	if id, ok := cause.Database(); ok {
		v.Database = new(int64(id))
	}
	if _, rule, ok := cause.Alert(); ok {
		v.Alert = new(int64(rule))
	}
	for n, id := range i.Services {
		v.Services[n] = int64(id)
	}
	t := i.Ticket
	v.Entity = entityView{int64(t.ID), t.Summary, string(operation.Ticket), entityPaths[operation.Ticket] + strconv.FormatInt(int64(t.ID), 10)}
	return v
}

type issuePath struct {
	ID int64 `path:"issueId" minimum:"1"`
}

type ticketView struct {
	ID      int64   `json:"id"`
	Summary string  `json:"summary"`
	Status  string  `json:"status" enum:"open,closed"`
	Opened  string  `json:"opened" format:"date-time"`
	Updated string  `json:"updated" format:"date-time"`
	Closed  *string `json:"closed" format:"date-time"`
}

func showTicket(t monitor.Ticket) ticketView {
	status := "open"
	if !t.Open {
		status = "closed"
	}
	return ticketView{int64(t.ID), t.Summary, status, showTime(t.Opened), showTime(t.Updated), optionalTime(t.Closed)}
}

type replyView struct {
	ID          int64  `json:"id"`
	Kind        string `json:"kind" enum:"opened,joined,notice,recovered,unwatched,closed,reply" doc:"What happened; reply: somebody wrote."`
	Created     string `json:"created" format:"date-time"`
	CreatedBy   string `json:"created_by"`
	FromStaff   bool   `json:"from_linode" doc:"Written by staff or by steward itself."`
	Description string `json:"description"`
	// Beyond what the cloud's API has.
	Public bool `json:"public" doc:"Status pages show it to everybody."`
}

func showReply(r monitor.Reply) replyView {
	return replyView{int64(r.ID), string(r.Kind), showTime(r.Created), r.By, r.FromStaff, r.Text, r.Public}
}

type replyCreate struct {
	Description string `json:"description" minLength:"1" maxLength:"65535"`
	Public      bool   `json:"public,omitempty" doc:"Show it to everybody on status pages."`
}

type replyUpdate struct {
	Public *bool `json:"public,omitempty" doc:"Whether status pages show it to everybody."`
}

type replyPath struct {
	ID    int64 `path:"ticketId" minimum:"1"`
	Reply int64 `path:"replyId" minimum:"1"`
}

type ticketPath struct {
	ID int64 `path:"ticketId" minimum:"1"`
}

type repliesInput struct {
	ID int64 `path:"ticketId" minimum:"1"`
	Listing
}

func (a *API) registerIssues() {
	issues := a.Control.Issues
	const all, one, tag = "/v4/managed/issues", "/v4/managed/issues/{issueId}", "Issues"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listIssues", summary: "List issues that last and those closed within 30 days", tag: tag, scope: readAccount},
		store.IssueFields, issues.List, showIssue)
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewIssue", summary: "View an issue", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[issuePath, none]) (issueView, error) {
			found, err := issues.View(ctx, c.Principal, monitor.IssueID(c.In.ID))
			return showIssue(found), err
		})
}

func (a *API) registerTickets() {
	tickets := a.Control.Tickets
	const all, one, tag = "/v4/support/tickets", "/v4/support/tickets/{ticketId}", "Tickets"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listTickets", summary: "List tickets, newest first", tag: tag, scope: readAccount},
		store.TicketFields, tickets.List, showTicket)
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewTicket", summary: "View a ticket", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[ticketPath, none]) (ticketView, error) {
			found, err := tickets.View(ctx, c.Principal, monitor.TicketID(c.In.ID))
			return showTicket(found), err
		})
	register(a, endpoint{method: http.MethodGet, path: one + "/replies", id: "listTicketReplies", summary: "List what happened and what was written, oldest first", tag: tag, scope: readAccount},
		func(ctx context.Context, c call[repliesInput, none]) (list[replyView], error) {
			return listPage(c.In.Listing, store.ReplyFields, showReply, func(q store.ListQuery) ([]monitor.Reply, int, error) {
				return tickets.Replies(ctx, c.Principal, monitor.TicketID(c.In.ID), q)
			})
		})
	register(a, endpoint{method: http.MethodPost, path: one + "/replies", id: "createTicketReply", summary: "Write to a ticket", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[ticketPath, replyCreate]) (replyView, error) {
			made, err := tickets.Reply(ctx, c.Principal, monitor.TicketID(c.In.ID), c.Body.Description, c.Body.Public, c.Faults)
			return showReply(made), err
		})
	register(a, endpoint{method: http.MethodPut, path: one + "/replies/{replyId}", id: "updateTicketReply", summary: "Have status pages show what was written, or no longer", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[replyPath, replyUpdate]) (replyView, error) {
			changed, err := tickets.Publish(ctx, c.Principal, monitor.TicketID(c.In.ID), monitor.ReplyID(c.In.Reply), c.Body.Public, c.Faults)
			return showReply(changed), err
		})
}
