package client

import (
	"context"
	"fmt"
	"net/http"
)

// FinalBackup is the last backup of a deleted database, whose id it has: a create with that as Fork makes one of it.
type FinalBackup struct {
	ID        int64  `json:"id"`
	Label     string `json:"label"`
	Engine    string `json:"engine"`
	Version   string `json:"version"`
	Type      string `json:"type"`
	Region    string `json:"region"`
	Created   string `json:"created"`
	Expires   string `json:"expires"`
	SizeBytes int64  `json:"size_bytes"`
}

// DeleteDatabaseAfterBackup is DeleteDatabase with a last backup before, which is kept for a while.
func (c *Client) DeleteDatabaseAfterBackup(ctx context.Context, d Database) error {
	return c.do(ctx, http.MethodDelete, d.Path()+"?final_backup=true", nil, nil)
}

// FinalBackups are the last backups of the account's deleted databases.
func (c *Client) FinalBackups(ctx context.Context) ([]FinalBackup, error) {
	var found struct {
		Data []FinalBackup `json:"data"`
	}
	err := c.do(ctx, http.MethodGet, "/v4/databases/final-backups", nil, &found)
	return found.Data, err
}

// DeleteFinalBackup removes the last backup of a deleted database.
func (c *Client) DeleteFinalBackup(ctx context.Context, id int64) error {
	return c.do(ctx, http.MethodDelete, fmt.Sprintf("/v4/databases/final-backups/%d", id), nil, nil)
}
