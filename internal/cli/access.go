package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/operator"
)

type userCommands struct {
	Create userCreateCommand `cmd:"" help:"Create a user."`
	Passwd userPasswdCommand `cmd:"" help:"Set the password that a user logs in to the console and OAuth applications with."`
	Link   userLinkCommand   `cmd:"" help:"Print a link with which a user sets a password in the console, once, within a day."`

	TFADisable userTFADisableCommand `cmd:"" name:"tfa-disable" help:"Take away a second factor that its user has lost."`
}

// accountFlag is embedded in commands about users, whose names are unique in their
// account only.
type accountFlag struct {
	Account string `help:"Account of the user; needed where more than one has a user of the name."`
}

type userCreateCommand struct {
	storeFlags
	jsonFlag
	Account    string   `help:"Account to make the user in; the first one by default."`
	Name       string   `arg:"" help:"The user's name."`
	Email      string   `required:"" help:"The user's e-mail address."`
	Restricted bool     `help:"The user sees and does only what it is granted."`
	Grant      []string `help:"Grant of a restricted user: add_databases." enum:"add_databases"`
}

func (c *userCreateCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	if err := access.CreateUser(ctx, c.Account, c.Name, c.Email, c.Restricted, len(c.Grant) > 0); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(s.out, userView{cmp.Or(c.Account, account.First), c.Name, c.Email, c.Restricted})
	}
	of := ""
	if c.Account != "" {
		of = " --account " + c.Account
	}
	fmt.Fprintf(s.out, "User %s is there. Next: steward token create --user %s%s --scopes \"databases:read_write events:read_only\" --data %s\n", c.Name, c.Name, of, c.Data)
	return nil
}

// userView is a user that was made, for --json.
type userView struct {
	Account    string `json:"account"`
	Username   string `json:"username"`
	Email      string `json:"email"`
	Restricted bool   `json:"restricted"`
}

type userPasswdCommand struct {
	dataFlag
	accountFlag
	Name  string `arg:"" help:"The user's name."`
	Store string `help:"PostgreSQL URL of the store, when it isn't steward's own."`
}

func (c *userPasswdCommand) Run(ctx context.Context, s *streams) error {
	password, err := newPassword(s)
	if err != nil {
		return err
	}
	access, err := operator.OpenAccess(ctx, c.Data, c.Store)
	if err != nil {
		return err
	}
	defer access.Close(ctx)
	if err := access.SetPassword(ctx, c.Account, c.Name, password); err != nil {
		return err
	}
	fmt.Fprintf(s.err, "The password of %s is set.\n", c.Name)
	return nil
}

type userLinkCommand struct {
	storeFlags
	accountFlag
	Name   string `arg:"" help:"The user's name."`
	URL    string `help:"Where the console is reached; console.url of the configuration by default." placeholder:"URL"`
	Config string `help:"The server's configuration file (YAML)." type:"existingfile"`
}

func (c *userLinkCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	config, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	origin := cmp.Or(c.URL, config.Console.URL, "http://127.0.0.1:8080")
	secret, err := access.MakeLoginLink(ctx, c.Account, c.Name)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, control.LinkTo(origin, secret))
	return nil
}

type userTFADisableCommand struct {
	storeFlags
	accountFlag
	Name string `arg:"" help:"The user's name."`
}

func (c *userTFADisableCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	if err := access.DropFactor(ctx, c.Account, c.Name); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s logs in without a second factor from now on.\n", c.Name)
	return nil
}

type tokenCommands struct {
	Create tokenCreateCommand `cmd:"" help:"Create a token and print it, alone."`
}

type tokenCreateCommand struct {
	storeFlags
	accountFlag
	User    string        `required:"" help:"Whose token."`
	Scopes  string        `required:"" help:"What it may do: * or area:read_only, area:read_write of databases, account, events, operator."`
	Label   string        `default:"command line" help:"What it is for."`
	Expires time.Duration `help:"How long it lasts, such as 720h; for ever when left out."`
}

func (c *tokenCreateCommand) Run(ctx context.Context, s *streams, access *operator.Access) error {
	token, err := access.CreateToken(ctx, c.Account, c.User, c.Label, c.Scopes, c.Expires)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, token)
	return nil
}
