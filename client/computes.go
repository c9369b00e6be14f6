package client

import (
	"context"
	"fmt"
	"net/http"
)

// Compute is a machine of the account and how support staff log in to it.
type Compute struct {
	ID    int64       `json:"id"`
	Label string      `json:"label"`
	Group string      `json:"group"`
	SSH   SSHSettings `json:"ssh"`
}

// SSHSettings say how support staff log in. A nil User is root, a nil Port 22.
type SSHSettings struct {
	Access bool    `json:"access"`
	User   *string `json:"user"`
	IP     string  `json:"ip"`
	Port   *int    `json:"port"`
}

const computes = "/v4/managed/compute-settings"

// Computes are all machines of the account.
func (c *Client) Computes(ctx context.Context) ([]Compute, error) {
	return list[Compute](ctx, c, computes, 0)
}

// FindCompute looks a machine up by id or label.
func (c *Client) FindCompute(ctx context.Context, idOrLabel string) (Compute, error) {
	return find(ctx, c.Computes, "machine", idOrLabel, func(one Compute) (int64, []string) { return one.ID, []string{one.Label} })
}

// UpdateSSH is a change of SSHSettings; nil fields stay as they are.
type UpdateSSH struct {
	Access *bool   `json:"access,omitempty"`
	User   *string `json:"user,omitempty"`
	IP     *string `json:"ip,omitempty"`
	Port   *int    `json:"port,omitempty"`
}

// UpdateSSH changes how support staff log in to a machine.
func (c *Client) UpdateSSH(ctx context.Context, machine Compute, in UpdateSSH) (Compute, error) {
	return ask[Compute](ctx, c, http.MethodPut, fmt.Sprintf("%s/%d", computes, machine.ID), map[string]any{"ssh": in})
}
