package client

import (
	"context"
	"net/http"
)

// SSHKey is the public key that support staff log in with to the account's
// machines: a line for an authorized_keys file.
func (c *Client) SSHKey(ctx context.Context) (string, error) {
	var answer struct {
		Key string `json:"ssh_key"`
	}
	err := c.do(ctx, http.MethodGet, "/v4/managed/credentials/sshkey", nil, &answer)
	return answer.Key, err
}
