package client

import (
	"context"
	"net/http"
	"net/url"
)

// Running is what a database's sessions are doing.
type Running struct {
	Sleeping    bool      `json:"sleeping"`
	Idle        int       `json:"idle"`
	Unreachable []int     `json:"unreachable_nodes"`
	Data        []Session `json:"data"`
}

// Session is one that does something. What there is none of is "" or nil.
type Session struct {
	ID          string   `json:"id"`
	Pid         int64    `json:"pid"`
	Node        int      `json:"node"`
	User        string   `json:"user"`
	Database    string   `json:"database"`
	Client      string   `json:"client"`
	State       string   `json:"state"`
	Age         float64  `json:"age"`
	Transaction *float64 `json:"transaction_age"`
	Wait        string   `json:"wait"`
	Query       string   `json:"query"`
	BlockedBy   []int64  `json:"blocked_by"`
}

// Running are the sessions of a database that do something, those first that cause the most trouble.
func (c *Client) Running(ctx context.Context, d Database) (Running, error) {
	var r Running
	err := c.do(ctx, http.MethodGet, d.Path()+"/queries/running", nil, &r)
	return r, err
}

// EndQuery tells a session to stop: mode is cancel, for what it does, or end.
func (c *Client) EndQuery(ctx context.Context, d Database, id, mode string) error {
	query := url.Values{"mode": {mode}}
	return c.do(ctx, http.MethodDelete, d.Path()+"/queries/running/"+url.PathEscape(id)+"?"+query.Encode(), nil, nil)
}
