package client

import (
	"context"
	"fmt"
	"net/http"
)

const statusPages = "/v4/managed/status-pages"

// StatusPage is what an account shows to everybody at /status/SLUG.
type StatusPage struct {
	ID                int64   `json:"id"`
	Slug              string  `json:"slug"`
	Title             string  `json:"title"`
	Services          []int64 `json:"services"`
	Databases         []int64 `json:"databases"`
	Days              int     `json:"days"`
	ShowResponseTimes bool    `json:"show_response_times"`
	Created           string  `json:"created"`
	Updated           string  `json:"updated"`
}

// StatusPageChange is what a page is made of or changed to. nil members stay as they are.
type StatusPageChange struct {
	Slug              *string  `json:"slug,omitempty"`
	Title             *string  `json:"title,omitempty"`
	Services          *[]int64 `json:"services,omitempty"`
	Databases         *[]int64 `json:"databases,omitempty"`
	Days              *int     `json:"days,omitempty"`
	ShowResponseTimes *bool    `json:"show_response_times,omitempty"`
}

func (p StatusPage) path() string { return fmt.Sprintf("%s/%d", statusPages, p.ID) }

// StatusPages are all of the account's.
func (c *Client) StatusPages(ctx context.Context) ([]StatusPage, error) {
	return list[StatusPage](ctx, c, statusPages, 0)
}

// FindStatusPage looks a page up by id or slug.
func (c *Client) FindStatusPage(ctx context.Context, text string) (StatusPage, error) {
	return find(ctx, c.StatusPages, "status page", text, func(one StatusPage) (int64, []string) { return one.ID, []string{one.Slug} })
}

// CreateStatusPage publishes a page.
func (c *Client) CreateStatusPage(ctx context.Context, in StatusPageChange) (StatusPage, error) {
	return ask[StatusPage](ctx, c, http.MethodPost, statusPages, in)
}

// UpdateStatusPage changes a page.
func (c *Client) UpdateStatusPage(ctx context.Context, p StatusPage, in StatusPageChange) (StatusPage, error) {
	return ask[StatusPage](ctx, c, http.MethodPut, p.path(), in)
}

// DeleteStatusPage takes a page away.
func (c *Client) DeleteStatusPage(ctx context.Context, p StatusPage) error {
	return c.do(ctx, http.MethodDelete, p.path(), nil, nil)
}
