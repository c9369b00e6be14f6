package client

import (
	"context"
	"net/http"
)

// Stat is one point of five minutes: X is when they begin, in milliseconds since 1970.
type Stat struct {
	X int64   `json:"x"`
	Y float64 `json:"y"`
}

// Stats are the load of all the account's machines together in the last 24 hours.
// CPU is in busy cores, Disk in bytes a second, Swap in bytes, NetIn and NetOut in
// bits a second. A point of which nothing is known isn't there.
type Stats struct {
	CPU    []Stat `json:"cpu"`
	Disk   []Stat `json:"disk"`
	NetIn  []Stat `json:"net_in"`
	NetOut []Stat `json:"net_out"`
	Swap   []Stat `json:"swap"`
}

// Stats reads them.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var answer struct {
		Data Stats `json:"data"`
	}
	err := c.do(ctx, http.MethodGet, "/v4/managed/stats", nil, &answer)
	return answer.Data, err
}
