package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// Usage is what a database was on a day, UTC, with one type and one number of nodes.
type Usage struct {
	Day            string  `json:"day"`
	Database       int64   `json:"database_id"`
	Label          string  `json:"label"`
	Engine         string  `json:"engine"`
	Type           string  `json:"type"`
	ClusterSize    int     `json:"cluster_size"`
	Hours          float64 `json:"hours"`
	SuspendedHours float64 `json:"suspended_hours"`
	UsedDiskBytes  int64   `json:"used_disk_bytes"`
	BackupBytes    int64   `json:"backup_bytes"`
	// Cost is nil for a type that isn't offered any more.
	Cost *float64 `json:"cost"`
}

// Usage is what the account's databases were, newest day first, from a day such as 2026-01-31 on.
func (c *Client) Usage(ctx context.Context, since string) ([]Usage, error) {
	var all []Usage
	for page := 1; ; page++ {
		var answer struct {
			Data  []Usage `json:"data"`
			Pages int     `json:"pages"`
		}
		query := url.Values{"page": {strconv.Itoa(page)}, "page_size": {strconv.Itoa(pageSize)}}
		if err := c.do(ctx, http.MethodGet, "/v4/account/usage?"+query.Encode(), nil, &answer); err != nil {
			return nil, err
		}
		for _, u := range answer.Data {
			if u.Day < since {
				return all, nil
			}
			all = append(all, u)
		}
		if page >= answer.Pages {
			return all, nil
		}
	}
}
