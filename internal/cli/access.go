package cli

import (
	"context"
	"fmt"
	"time"

	"steward/internal/app"
)

type userCommands struct {
	Create userCreateCommand `cmd:"" help:"Create a user."`
	Passwd userPasswdCommand `cmd:"" help:"Set the password that a user logs in to OAuth applications with."`
}

type userCreateCommand struct {
	dataFlag
	Name       string   `arg:"" help:"The user's name."`
	Email      string   `required:"" help:"The user's e-mail address."`
	Restricted bool     `help:"The user sees and does only what it is granted."`
	Grant      []string `help:"Grant of a restricted user: add_databases." enum:"add_databases"`
	Store      string   `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

func (c *userCreateCommand) Run(ctx context.Context, s *streams) error {
	access, err := app.OpenAccess(ctx, c.Data, c.Store)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	if err := access.CreateUser(ctx, c.Name, c.Email, c.Restricted, len(c.Grant) > 0); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "User %s is there. Next: steward token create --user %s --scopes \"databases:read_write events:read_only\" --data %s\n", c.Name, c.Name, c.Data)
	return nil
}

type userPasswdCommand struct {
	dataFlag
	Name  string `arg:"" help:"The user's name."`
	Store string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

func (c *userPasswdCommand) Run(ctx context.Context, s *streams) error {
	password, err := newPassword(s)
	if err != nil {
		return err
	}
	access, err := app.OpenAccess(ctx, c.Data, c.Store)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	if err := access.SetPassword(ctx, c.Name, password); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "The password of %s is set.\n", c.Name)
	return nil
}

type tokenCommands struct {
	Create tokenCreateCommand `cmd:"" help:"Create a token and print it, alone."`
}

type tokenCreateCommand struct {
	dataFlag
	User    string        `required:"" help:"Whose token."`
	Scopes  string        `required:"" help:"What it may do: * or area:read_only, area:read_write of databases, account, events."`
	Label   string        `default:"command line" help:"What it is for."`
	Expires time.Duration `help:"How long it lasts, such as 720h; for ever when left out."`
	Store   string        `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

func (c *tokenCreateCommand) Run(ctx context.Context, s *streams) error {
	access, err := app.OpenAccess(ctx, c.Data, c.Store)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	token, err := access.CreateToken(ctx, c.User, c.Label, c.Scopes, c.Expires)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, token)
	return nil
}
