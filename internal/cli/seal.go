package cli

import (
	"context"
	"time"

	"steward/internal/config"
	"steward/internal/operator"
)

type sealCommands struct {
	Rotate sealRotateCommand `cmd:"" help:"Change the master key of all secrets, while servers run."`
}

type sealRotateCommand struct {
	dataFlag
	Introduce bool          `xor:"step" help:"Only add a new key to the key file, to be taken to other servers of the store before it is used."`
	Retire    bool          `xor:"step" help:"Remove the old key from the key file, once nothing depends on it."`
	Grace     time.Duration `default:"150s" help:"How long --retire waits for what servers have under way: a minute until they see a key service's new key, and longer than any request takes."`
	Backups   string        `help:"Where the backups are, when that isn't the configured place: a folder, or the URL of an object store."`
	Store     string        `help:"PostgreSQL URL of the store, when it isn't steward's own."`
	Config    string        `help:"Configuration file (YAML)." type:"existingfile"`
}

func (c *sealRotateCommand) Run(ctx context.Context, s *streams) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	return operator.RotateSeal(ctx, operator.RotateOptions{
		Data: c.Data, Store: c.Store, Archive: c.Backups, Config: config,
		Introduce: c.Introduce, Retire: c.Retire, Grace: c.Grace, Out: s.out,
	})
}
