package client

import (
	"context"
	"fmt"
	"net/http"
)

// MigrationSource is a server elsewhere that logical databases are brought over from. Password and CA are in requests only.
type MigrationSource struct {
	Host     string `json:"host"`
	Port     int    `json:"port"`
	Username string `json:"username"`
	Password string `json:"password,omitempty"`
	TLS      string `json:"tls,omitempty"`
	CA       string `json:"ca,omitempty"`
}

// MigratedDatabase is a logical database: its name at the source, and the one that it gets.
type MigratedDatabase struct {
	Name string `json:"name"`
	As   string `json:"as,omitempty"`
	Done bool   `json:"done,omitempty"`
}

// CreateMigration asks for logical databases to be brought over.
type CreateMigration struct {
	Source    MigrationSource    `json:"source"`
	Databases []MigratedDatabase `json:"databases"`
	Mode      string             `json:"mode,omitempty"`
}

// MigratedTable is how far a table is, in bytes.
type MigratedTable struct {
	Database   string `json:"database"`
	Name       string `json:"name"`
	Bytes      int64  `json:"bytes"`
	TotalBytes int64  `json:"total_bytes"`
	Done       bool   `json:"done"`
}

// MigrationProblem is something about a source that its owner should know.
type MigrationProblem struct {
	Database string `json:"database"`
	Blocking bool   `json:"blocking"`
	Message  string `json:"message"`
}

// Migration is logical databases on their way from a server elsewhere.
type Migration struct {
	ID         int64              `json:"id"`
	Source     MigrationSource    `json:"source"`
	Databases  []MigratedDatabase `json:"databases"`
	Mode       string             `json:"mode"`
	Status     string             `json:"status"`
	Phase      string             `json:"phase"`
	Bytes      int64              `json:"bytes"`
	TotalBytes int64              `json:"total_bytes"`
	Tables     []MigratedTable    `json:"tables"`
	TablesDone int                `json:"tables_done"`
	TablesAll  int                `json:"tables_all"`
	Problems   []MigrationProblem `json:"problems"`
	LagBytes   *int64             `json:"lag_bytes"`
	LagSeconds *int64             `json:"lag_seconds"`
	Cutover    string             `json:"cutover"`
	Problem    string             `json:"problem"`
	Created    string             `json:"created"`
	Finished   string             `json:"finished"`
}

// Ended reports whether nothing more will happen.
func (m Migration) Ended() bool {
	return m.Status == "finished" || m.Status == "failed" || m.Status == "canceled"
}

// MigrationReport is what was found out about a source.
type MigrationReport struct {
	Possible   bool               `json:"possible"`
	Version    string             `json:"version"`
	TotalBytes int64              `json:"total_bytes"`
	Replicates bool               `json:"replicates"`
	Problems   []MigrationProblem `json:"problems"`
}

// Migrations are a database's, newest first.
func (c *Client) Migrations(ctx context.Context, d Database) ([]Migration, error) {
	return list[Migration](ctx, c, d.Path()+"/migrations", 0)
}

// CreateMigration begins to bring logical databases over.
func (c *Client) CreateMigration(ctx context.Context, d Database, asked CreateMigration) (Migration, error) {
	return ask[Migration](ctx, c, http.MethodPost, d.Path()+"/migrations", asked)
}

// CheckMigration says whether logical databases could be brought over.
func (c *Client) CheckMigration(ctx context.Context, d Database, asked CreateMigration) (MigrationReport, error) {
	return ask[MigrationReport](ctx, c, http.MethodPost, d.Path()+"/migrations/check", asked)
}

// Migration is one of a database's.
func (c *Client) Migration(ctx context.Context, d Database, id int64) (Migration, error) {
	return ask[Migration](ctx, c, http.MethodGet, fmt.Sprintf("%s/migrations/%d", d.Path(), id), nil)
}

// CutOverMigration ends following a source: what it has by now comes over.
func (c *Client) CutOverMigration(ctx context.Context, d Database, id int64) (Migration, error) {
	return ask[Migration](ctx, c, http.MethodPost, fmt.Sprintf("%s/migrations/%d/cutover", d.Path(), id), nil)
}

// DeleteMigration cancels a migration, or forgets one that has ended.
func (c *Client) DeleteMigration(ctx context.Context, d Database, id int64) error {
	return c.do(ctx, http.MethodDelete, fmt.Sprintf("%s/migrations/%d", d.Path(), id), nil, nil)
}
