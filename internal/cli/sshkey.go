package cli

import (
	"context"
	"fmt"

	"steward/client"
)

type sshKeyCommand struct {
	apiFlags
}

func (f *sshKeyCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	key, err := c.SSHKey(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, key)
	return nil
}
