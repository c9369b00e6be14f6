package client

import (
	"context"
	"net/http"
)

// UpgradeCheck is what the last try of a newer version found. Status is "none" before there was any, "running", "passed", "failed" or "error"; PauseSeconds, for how
// long about nobody could write, is nil unless it passed.
type UpgradeCheck struct {
	Version      string   `json:"version"`
	Status       string   `json:"status"`
	PauseSeconds *int     `json:"pause_seconds"`
	Reasons      []string `json:"reasons"`
	Percent      int      `json:"percent"`
	Message      string   `json:"message"`
	Created      *string  `json:"created"`
	Finished     *string  `json:"finished"`
}

// CheckUpgrade begins to try the move to a newer version on a copy of the database's data.
func (c *Client) CheckUpgrade(ctx context.Context, d Database, version string) error {
	return c.do(ctx, http.MethodPost, d.Path()+"/upgrade-check", map[string]string{"version": version}, nil)
}

// LastUpgradeCheck returns what the last try found.
func (c *Client) LastUpgradeCheck(ctx context.Context, d Database) (UpgradeCheck, error) {
	return ask[UpgradeCheck](ctx, c, http.MethodGet, d.Path()+"/upgrade-check", nil)
}
