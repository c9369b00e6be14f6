package client

import (
	"context"
	"fmt"
	"net/http"
)

// Issue is an outage. Closed is "" while it lasts.
type Issue struct {
	ID       int64   `json:"id"`
	Created  string  `json:"created"`
	Closed   string  `json:"closed"`
	Services []int64 `json:"services"`
	Entity   Entity  `json:"entity"`
	// Database is the database that it is about, and Alert the definition that opened it; 0 for none.
	Database int64 `json:"database_id"`
	Alert    int64 `json:"alert_id"`
}

// Ticket is what people are told of an issue and what they write about it.
type Ticket struct {
	ID      int64  `json:"id"`
	Summary string `json:"summary"`
	Status  string `json:"status"`
	Opened  string `json:"opened"`
	Updated string `json:"updated"`
	Closed  string `json:"closed"`
}

// Reply is an entry of a ticket's timeline.
type Reply struct {
	ID          int64  `json:"id"`
	Kind        string `json:"kind"`
	Created     string `json:"created"`
	CreatedBy   string `json:"created_by"`
	FromStaff   bool   `json:"from_linode"`
	Description string `json:"description"`
	// Public reports whether status pages show it to everybody.
	Public bool `json:"public"`
}

func (t Ticket) path() string { return fmt.Sprintf("/v4/support/tickets/%d", t.ID) }

// Issues are those that last and those that were closed within 30 days.
func (c *Client) Issues(ctx context.Context) ([]Issue, error) {
	return list[Issue](ctx, c, "/v4/managed/issues", 0)
}

// Tickets are all of the account's, newest first.
func (c *Client) Tickets(ctx context.Context) ([]Ticket, error) {
	return list[Ticket](ctx, c, "/v4/support/tickets", 0)
}

// Ticket is one ticket.
func (c *Client) Ticket(ctx context.Context, id int64) (Ticket, error) {
	found := Ticket{ID: id}
	err := c.do(ctx, http.MethodGet, found.path(), nil, &found)
	return found, err
}

// Replies are a ticket's timeline, oldest first.
func (c *Client) Replies(ctx context.Context, t Ticket) ([]Reply, error) {
	return list[Reply](ctx, c, t.path()+"/replies", 0)
}

// ReplyTo writes to a ticket; public: status pages show it.
func (c *Client) ReplyTo(ctx context.Context, t Ticket, text string, public bool) (Reply, error) {
	return ask[Reply](ctx, c, http.MethodPost, t.path()+"/replies", map[string]any{"description": text, "public": public})
}

// PublishReply sets whether status pages show what somebody wrote.
func (c *Client) PublishReply(ctx context.Context, t Ticket, reply int64, public bool) (Reply, error) {
	return ask[Reply](ctx, c, http.MethodPut, fmt.Sprintf("%s/replies/%d", t.path(), reply), map[string]bool{"public": public})
}
