package client

import "context"

// Event tells of something that was done to, or found in, the account's things.
type Event struct {
	ID              int64  `json:"id"`
	Action          string `json:"action"`
	Status          string `json:"status"`
	Created         string `json:"created"`
	Username        string `json:"username"`
	PercentComplete int    `json:"percent_complete"`
	Message         string `json:"message"`
	Entity          Entity `json:"entity"`
}

// Entity is what an event is of.
type Entity struct {
	ID    int64  `json:"id"`
	Label string `json:"label"`
	Type  string `json:"type"`
	URL   string `json:"url"`
}

// Events are the newest, at most about as many as asked for (0: all).
func (c *Client) Events(ctx context.Context, most int) ([]Event, error) {
	return list[Event](ctx, c, "/v4/account/events", most)
}
