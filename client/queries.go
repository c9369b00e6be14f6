package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
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
	return ask[Running](ctx, c, http.MethodGet, d.Path()+"/queries/running", nil)
}

// EndQuery tells a session to stop: mode is cancel, for what it does, or end.
func (c *Client) EndQuery(ctx context.Context, d Database, id, mode string) error {
	query := url.Values{"mode": {mode}}
	return c.do(ctx, http.MethodDelete, d.Path()+"/queries/running/"+url.PathEscape(id)+"?"+query.Encode(), nil, nil)
}

// Statements are a page of what a server has counted.
type Statements struct {
	Sleeping bool `json:"sleeping"`
	// Missing says why no statements are counted; "" when they are.
	Missing string      `json:"missing"`
	Data    []Statement `json:"data"`
	Pages   int         `json:"pages"`
	Results int         `json:"results"`
}

// Statement is what is counted of statements that differ in their values only. Times are seconds.
type Statement struct {
	ID       string  `json:"query_id"`
	Query    string  `json:"query"`
	User     string  `json:"user"`
	Database string  `json:"database"`
	Calls    int64   `json:"calls"`
	Rows     int64   `json:"rows"`
	Total    float64 `json:"total_time"`
	Mean     float64 `json:"mean_time"`
	Share    float64 `json:"share"`
}

// Statements are what a database has counted, the greatest by order first: total_time, calls, mean or
// rows. They are the first 25 to 500.
func (c *Client) Statements(ctx context.Context, d Database, order string, most int) (Statements, error) {
	var found Statements
	query := url.Values{"order_by": {order}, "page_size": {strconv.Itoa(min(max(most, 25), 500))}}
	err := c.do(ctx, http.MethodGet, d.Path()+"/queries/statistics?"+query.Encode(), nil, &found)
	found.Data = found.Data[:min(most, len(found.Data))]
	return found, err
}

// ResetStatements has a database count anew.
func (c *Client) ResetStatements(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/queries/statistics/reset", nil, nil)
}

// AskedPlan is a statement whose plan is asked for: Query in Database, or a counted one's id.
type AskedPlan struct {
	Database string `json:"database,omitempty"`
	Query    string `json:"query,omitempty"`
	QueryID  string `json:"query_id,omitempty"`
}

// Plan is how the server would carry out a statement, as its EXPLAIN describes it in JSON.
func (c *Client) Plan(ctx context.Context, d Database, asked AskedPlan) (json.RawMessage, error) {
	var found struct {
		Plan json.RawMessage `json:"plan"`
	}
	err := c.do(ctx, http.MethodPost, d.Path()+"/queries/plan", asked, &found)
	return found.Plan, err
}

// SlowStatements are a page of statements that took long. Threshold is in seconds, nil when none are logged, and Missing says why.
type SlowStatements struct {
	Threshold *float64        `json:"threshold"`
	Missing   string          `json:"missing"`
	Data      []SlowStatement `json:"data"`
	Next      string          `json:"next_page_token"`
}

// SlowStatement is one that took so many seconds.
type SlowStatement struct {
	Time     string  `json:"time"`
	Node     int     `json:"node"`
	Duration float64 `json:"duration"`
	User     string  `json:"user"`
	Database string  `json:"database"`
	Query    string  `json:"query"`
}

// Slow are a page of a database's statements that took long, and longest seconds at least. Of q all counts but the severity.
func (c *Client) Slow(ctx context.Context, d Database, q LogQuery, longest float64) (SlowStatements, error) {
	var found SlowStatements
	query := q.values()
	query.Del("severity")
	if longest > 0 {
		query.Set("min_duration", strconv.FormatFloat(longest, 'f', -1, 64))
	}
	err := c.do(ctx, http.MethodGet, d.Path()+"/queries/slow?"+query.Encode(), nil, &found)
	return found, err
}
