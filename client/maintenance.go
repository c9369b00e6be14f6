package client

import "context"

// Maintenance is one thing that waits for a database's maintenance window, or goes
// on in it.
type Maintenance struct {
	Entity   Entity `json:"entity"`
	Type     string `json:"type"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
	When     string `json:"when"`
	Deadline string `json:"deadline"`
}

// Maintenance is all that waits for the windows of the account's databases.
func (c *Client) Maintenance(ctx context.Context) ([]Maintenance, error) {
	return list[Maintenance](ctx, c, "/v4/account/maintenance", 0)
}
