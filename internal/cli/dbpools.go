package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"steward/client"
)

type dbPoolCommands struct {
	List   dbPoolListCommand   `cmd:"" help:"List the connection pools."`
	Create dbPoolCreateCommand `cmd:"" help:"Create a connection pool."`
	Update dbPoolUpdateCommand `cmd:"" help:"Change a connection pool."`
	Delete dbPoolDeleteCommand `cmd:"" help:"Delete a connection pool and end its sessions."`
}

type dbPoolListCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbPoolListCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.Pools(ctx, d)
	if err != nil {
		return err
	}
	return printPools(s, all, f.JSON)
}

func printPools(s *streams, all []client.Pool, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"label", "database", "mode", "size", "for", "prepared statements"}, func(p client.Pool) []string {
		prepared := "no"
		if p.Prepared {
			prepared = "yes"
		}
		return []string{p.Label, p.Database, p.Mode, strconv.Itoa(p.Size), onlyUser(p.Username), prepared}
	})
}

// onlyUser is who may log in to a pool.
func onlyUser(name *string) string {
	if name == nil {
		return "all users"
	}
	return *name
}

// poolArg names a connection pool.
type poolArg struct {
	Label string `arg:"" help:"The pool's label, which clients name as their database."`
}

type dbPoolCreateCommand struct {
	apiFlags
	waitFlag
	jsonFlag
	databaseArg
	poolArg
	logicalFlag
	Mode string `default:"transaction" enum:"transaction,session,statement" help:"When a connection is another client's turn: transaction, session or statement."`
	Size int    `default:"10" help:"Connections to the server, at most."`
	User string `help:"The only user who may log in; all when left out."`
}

func (f *dbPoolCreateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	made, err := c.CreatePool(ctx, d, client.CreatePool{Label: f.Label, Database: f.Logical, Mode: f.Mode, Size: f.Size, Username: f.User})
	if err != nil {
		return err
	}
	if _, err := f.settle(ctx, c, d, s); err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printPools)
}

type dbPoolUpdateCommand struct {
	apiFlags
	waitFlag
	jsonFlag
	databaseArg
	poolArg
	Logical *string `name:"database" help:"The logical database."`
	Mode    *string `enum:"transaction,session,statement" help:"When a connection is another client's turn: transaction, session or statement."`
	Size    *int    `help:"Connections to the server, at most."`
	User    *string `xor:"user" help:"The only user who may log in."`
	Anybody bool    `xor:"user" help:"All users may log in."`
}

func (f *dbPoolUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if f.Logical == nil && f.Mode == nil && f.Size == nil && f.User == nil && !f.Anybody {
		return errors.New("say what is to change: --database, --mode, --size, --user or --anybody")
	}
	asked := client.UpdatePool{Database: f.Logical, Mode: f.Mode, Size: f.Size}
	if f.User != nil || f.Anybody {
		var err error
		if asked.Username, err = json.Marshal(f.User); err != nil {
			return fmt.Errorf("the user's name: %w", err)
		}
	}
	changed, err := c.UpdatePool(ctx, d, f.Label, asked)
	if err != nil {
		return err
	}
	if _, err := f.settle(ctx, c, d, s); err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printPools)
}

type dbPoolDeleteCommand struct {
	apiFlags
	waitFlag
	databaseArg
	poolArg
}

func (f *dbPoolDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.DeletePool(ctx, d, f.Label); err != nil {
		return err
	}
	if _, err := f.settle(ctx, c, d, s); err != nil {
		return err
	}
	fmt.Fprintln(s.out, f.Label, "is deleted.")
	return nil
}
