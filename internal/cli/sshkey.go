package cli

import (
	"context"
	"fmt"
)

type sshKeyCommand struct {
	apiFlags
}

func (f *sshKeyCommand) Run(ctx context.Context, s *streams) error {
	c, err := f.client()
	if err != nil {
		return err
	}
	key, err := c.SSHKey(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, key)
	return nil
}
