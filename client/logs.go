package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// LogQuery says which lines of a database's logs are wanted. What is "" or nil bounds nothing.
type LogQuery struct {
	From, To, Severity, Text string
	Node                     *int
	// Oldest asks for the oldest first; otherwise the newest are.
	Oldest bool
	// Token is where an earlier page ended, Size how many lines a page has, 25 to 500.
	Token string
	Size  int
}

// LogLine is one entry of a server's log.
type LogLine struct {
	Time     string `json:"time"`
	Node     int    `json:"node"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
}

// Logs are a page of what a database's servers have logged, and the token of the next; "" for none.
func (c *Client) Logs(ctx context.Context, d Database, q LogQuery) ([]LogLine, string, error) {
	var found struct {
		Data []LogLine `json:"data"`
		Next string    `json:"next_page_token"`
	}
	err := c.do(ctx, http.MethodGet, d.Path()+"/logs?"+q.values().Encode(), nil, &found)
	return found.Data, found.Next, err
}

func (q LogQuery) values() url.Values {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	set("from", q.From)
	set("to", q.To)
	set("severity", q.Severity)
	set("text", q.Text)
	set("page_token", q.Token)
	if q.Node != nil {
		set("node", strconv.Itoa(*q.Node))
	}
	if q.Oldest {
		set("order", "oldest")
	}
	if q.Size > 0 {
		set("page_size", strconv.Itoa(q.Size))
	}
	return query
}
