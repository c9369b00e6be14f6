package client

import (
	"context"
	"fmt"
	"net/http"
)

// Backup is a copy of a database. Only one whose state is complete can be restored.
type Backup struct {
	ID          int64  `json:"id"`
	Type        string `json:"type"`
	Label       string `json:"label"`
	Created     string `json:"created"`
	State       string `json:"state"`
	Target      string `json:"target"`
	SizeBytes   int64  `json:"size_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	// Verified is when it was last proven to restore, "" when it wasn't yet.
	Verified string `json:"verified"`
	// Verification is pending, passed, failed or timed_out.
	Verification string `json:"verification"`
	Problem      string `json:"problem"`
}

// CreateSnapshot is a request for a snapshot. Target is primary or secondary;
// "" means primary.
type CreateSnapshot struct {
	Label  string `json:"label"`
	Target string `json:"target,omitempty"`
}

// backup is the address of one of the database's backups in the API.
func (d Database) backup(id int64) string { return fmt.Sprintf("%s/backups/%d", d.Path(), id) }

// Backups are all of a database's, newest first.
func (c *Client) Backups(ctx context.Context, d Database) ([]Backup, error) {
	return list[Backup](ctx, c, d.Path()+"/backups", 0)
}

// Backup reads one of a database's backups.
func (c *Client) Backup(ctx context.Context, d Database, id int64) (Backup, error) {
	return ask[Backup](ctx, c, http.MethodGet, d.backup(id), nil)
}

// FindBackup looks a backup up by id or label.
func (c *Client) FindBackup(ctx context.Context, d Database, idOrLabel string) (Backup, error) {
	all, err := c.Backups(ctx, d)
	if err != nil {
		return Backup{}, err
	}
	for _, b := range all {
		if fmt.Sprint(b.ID) == idOrLabel || b.Label == idOrLabel {
			return b, nil
		}
	}
	return Backup{}, fmt.Errorf("%s has no backup %q", d.Label, idOrLabel)
}

// CreateSnapshot begins a snapshot; the database is backing_up until it is complete.
func (c *Client) CreateSnapshot(ctx context.Context, d Database, in CreateSnapshot) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/backups", in, nil)
}

// DeleteBackup deletes a backup.
func (c *Client) DeleteBackup(ctx context.Context, d Database, b Backup) error {
	return c.do(ctx, http.MethodDelete, d.backup(b.ID), nil, nil)
}

// RestoreBackup replaces all of the database's data by the backup's.
func (c *Client) RestoreBackup(ctx context.Context, d Database, b Backup) error {
	return c.do(ctx, http.MethodPost, d.backup(b.ID)+"/restore", nil, nil)
}

// RestoreTo replaces all of the database's data by what it was at a moment, such as 2026-01-31T18:04:05 (UTC).
func (c *Client) RestoreTo(ctx context.Context, d Database, to string) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/restore", map[string]string{"to": to}, nil)
}

// UndoRestore brings back the data that the database's last restore replaced.
func (c *Client) UndoRestore(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/restore/undo", nil, nil)
}

// RestoreWindow is a time from whose moments a database can be restored.
type RestoreWindow struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// RestoreWindows are all of a database, oldest first.
func (c *Client) RestoreWindows(ctx context.Context, d Database) ([]RestoreWindow, error) {
	var found struct {
		Data []RestoreWindow `json:"data"`
	}
	err := c.do(ctx, http.MethodGet, d.Path()+"/restore-windows", nil, &found)
	return found.Data, err
}
