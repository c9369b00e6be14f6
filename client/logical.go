package client

import (
	"context"
	"net/http"
	"net/url"
)

// Logical is a logical database. Owner is "" for MySQL and MariaDB.
type Logical struct {
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	Encoding  string `json:"encoding"`
	Collation string `json:"collation"`
}

// CreateLogical asks for a logical database; what is "" is the server's choice.
type CreateLogical struct {
	Name      string `json:"name"`
	Owner     string `json:"owner,omitempty"`
	Encoding  string `json:"encoding,omitempty"`
	Collation string `json:"collation,omitempty"`
}

// LogicalGrant is what a user may do in a logical database: read, write or owner.
type LogicalGrant struct {
	Database  string `json:"database"`
	Privilege string `json:"privilege"`
}

// DatabaseUser is a user of a database. Password is told when it is made, and never again.
type DatabaseUser struct {
	Username string         `json:"username"`
	Grants   []LogicalGrant `json:"grants"`
	Password string         `json:"password,omitempty"`
}

// Logicals are a database's logical databases, by name.
func (c *Client) Logicals(ctx context.Context, d Database) ([]Logical, error) {
	return list[Logical](ctx, c, d.Path()+"/databases", 0)
}

// CreateLogical makes a logical database.
func (c *Client) CreateLogical(ctx context.Context, d Database, asked CreateLogical) (Logical, error) {
	return ask[Logical](ctx, c, http.MethodPost, d.Path()+"/databases", asked)
}

// DeleteLogical removes a logical database with all its data.
func (c *Client) DeleteLogical(ctx context.Context, d Database, name string) error {
	return c.do(ctx, http.MethodDelete, d.Path()+"/databases/"+url.PathEscape(name), nil, nil)
}

// DatabaseUsers are those that log in to a database, but its root user, by name.
func (c *Client) DatabaseUsers(ctx context.Context, d Database) ([]DatabaseUser, error) {
	return list[DatabaseUser](ctx, c, d.Path()+"/users", 0)
}

// CreateDatabaseUser makes a user; the answer has its password.
func (c *Client) CreateDatabaseUser(ctx context.Context, d Database, asked DatabaseUser) (DatabaseUser, error) {
	return ask[DatabaseUser](ctx, c, http.MethodPost, d.Path()+"/users", asked)
}

// GrantDatabaseUser gives a user these grants and takes all others.
func (c *Client) GrantDatabaseUser(ctx context.Context, d Database, user string, grants []LogicalGrant) (DatabaseUser, error) {
	body := struct {
		Grants []LogicalGrant `json:"grants"`
	}{append([]LogicalGrant{}, grants...)}
	return ask[DatabaseUser](ctx, c, http.MethodPut, d.Path()+"/users/"+url.PathEscape(user), body)
}

// DeleteDatabaseUser removes a user that owns nothing.
func (c *Client) DeleteDatabaseUser(ctx context.Context, d Database, user string) error {
	return c.do(ctx, http.MethodDelete, d.Path()+"/users/"+url.PathEscape(user), nil, nil)
}

// ResetDatabaseUser gives a user a new password and ends its sessions.
func (c *Client) ResetDatabaseUser(ctx context.Context, d Database, user string) (Credentials, error) {
	return ask[Credentials](ctx, c, http.MethodPost, d.Path()+"/users/"+url.PathEscape(user)+"/credentials/reset", nil)
}
