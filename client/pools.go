package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Pool is a connection pool of a PostgreSQL database. Prepared reports whether clients can use prepared statements.
type Pool struct {
	Label    string  `json:"label"`
	Database string  `json:"database"`
	Mode     string  `json:"mode"`
	Size     int     `json:"size"`
	Username *string `json:"username"`
	Prepared bool    `json:"prepared_statements"`
}

// CreatePool asks for a connection pool.
type CreatePool struct {
	Label    string `json:"label"`
	Database string `json:"database"`
	Mode     string `json:"mode"`
	Size     int    `json:"size"`
	// Username is the only user who may log in, "" for all.
	Username string `json:"username,omitempty"`
}

// UpdatePool changes a connection pool; nil leaves a member as it is.
type UpdatePool struct {
	Database *string `json:"database,omitempty"`
	Mode     *string `json:"mode,omitempty"`
	Size     *int    `json:"size,omitempty"`
	// Username is the only user who may log in; a null for all.
	Username json.RawMessage `json:"username,omitempty"`
}

// Pools are a database's connection pools, by label.
func (c *Client) Pools(ctx context.Context, d Database) ([]Pool, error) {
	return list[Pool](ctx, c, d.Path()+"/connection-pools", 0)
}

// CreatePool asks for a connection pool; it is there once the database is active again.
func (c *Client) CreatePool(ctx context.Context, d Database, asked CreatePool) (Pool, error) {
	return ask[Pool](ctx, c, http.MethodPost, d.Path()+"/connection-pools", asked)
}

// UpdatePool changes a connection pool.
func (c *Client) UpdatePool(ctx context.Context, d Database, label string, asked UpdatePool) (Pool, error) {
	return ask[Pool](ctx, c, http.MethodPut, d.Path()+"/connection-pools/"+url.PathEscape(label), asked)
}

// DeletePool removes a connection pool and ends its sessions.
func (c *Client) DeletePool(ctx context.Context, d Database, label string) error {
	return c.do(ctx, http.MethodDelete, d.Path()+"/connection-pools/"+url.PathEscape(label), nil, nil)
}
