package client

import "context"

// Change is a line of the account's audit trail: a request that changed something or was refused.
type Change struct {
	ID        int64   `json:"id"`
	Datetime  string  `json:"datetime"`
	Username  string  `json:"username"`
	TokenID   *int64  `json:"token_id"`
	ClientID  *string `json:"client_id"`
	IP        *string `json:"ip"`
	Action    string  `json:"action"`
	Path      string  `json:"path"`
	Status    int     `json:"status"`
	RequestID *string `json:"request_id"`
}

// Changes are the newest lines of the account's audit trail, at most about as many as asked for (0: all of the last 90 days).
func (c *Client) Changes(ctx context.Context, most int) ([]Change, error) {
	return list[Change](ctx, c, "/v4/account/audit", most)
}
