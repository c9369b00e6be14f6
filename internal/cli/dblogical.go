package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"steward/client"
)

type dbLogicalCommands struct {
	List   dbLogicalListCommand   `cmd:"" help:"List the logical databases."`
	Create dbLogicalCreateCommand `cmd:"" help:"Create a logical database."`
	Delete dbLogicalDeleteCommand `cmd:"" help:"Delete a logical database and all its data."`
}

type dbLogicalListCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbLogicalListCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.Logicals(ctx, d)
	if err != nil {
		return err
	}
	return printLogicals(s, all, f.JSON)
}

func printLogicals(s *streams, all []client.Logical, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"name", "owner", "encoding", "collation"}, func(l client.Logical) []string {
		return []string{l.Name, orDash(l.Owner), l.Encoding, l.Collation}
	})
}

type dbLogicalCreateCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	Name      string `arg:"" help:"Its name."`
	Owner     string `help:"User that it belongs to; PostgreSQL only."`
	Encoding  string `help:"Such as UTF8 or utf8mb4."`
	Collation string `help:"Such as de-x-icu or utf8mb4_general_ci."`
}

func (f *dbLogicalCreateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	made, err := c.CreateLogical(ctx, d, client.CreateLogical{Name: f.Name, Owner: f.Owner, Encoding: f.Encoding, Collation: f.Collation})
	if err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printLogicals)
}

type dbLogicalDeleteCommand struct {
	apiFlags
	databaseArg
	Name string `arg:"" help:"Its name."`
	Yes  bool   `help:"Don't ask."`
}

func (f *dbLogicalDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if !f.Yes {
		fmt.Fprintf(s.out, "Delete the logical database %s of %s and all its data? Type its name: ", f.Name, d.Label)
		answer, err := bufio.NewReader(s.in).ReadString('\n') // a name may have blanks
		if err != nil || strings.TrimSuffix(answer, "\n") != f.Name {
			return errors.New("nothing was deleted")
		}
	}
	if err := c.DeleteLogical(ctx, d, f.Name); err != nil {
		return err
	}
	fmt.Fprintln(s.out, f.Name, "is deleted.")
	return nil
}

type dbUserCommands struct {
	List   dbUserListCommand   `cmd:"" help:"List the users, but the root user."`
	Create dbUserCreateCommand `cmd:"" help:"Create a user and print its password, which is kept nowhere."`
	Grant  dbUserGrantCommand  `cmd:"" help:"Give a user these grants and take all others."`
	Reset  dbUserResetCommand  `cmd:"" help:"Give a user a new password, print it, and end its sessions."`
	Delete dbUserDeleteCommand `cmd:"" help:"Delete a user that owns nothing."`
}

type dbUserListCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbUserListCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.DatabaseUsers(ctx, d)
	if err != nil {
		return err
	}
	return printList(s.out, all, f.JSON, []string{"username", "grants"}, func(u client.DatabaseUser) []string {
		return []string{u.Username, orDash(shownGrants(u.Grants))}
	})
}

// shownGrants are grants as flags have them.
func shownGrants(grants []client.LogicalGrant) string {
	texts := make([]string, len(grants))
	for i, g := range grants {
		texts[i] = g.Database + "=" + g.Privilege
	}
	return strings.Join(texts, ", ")
}

// grantFlags are embedded in commands that grant.
type grantFlags struct {
	Grant []string `placeholder:"DATABASE=PRIVILEGE" sep:"none" help:"What the user may do in a logical database: read, write or owner; may be repeated."`
}

func (f grantFlags) grants() ([]client.LogicalGrant, error) {
	grants := []client.LogicalGrant{}
	for _, text := range f.Grant {
		i := strings.LastIndexByte(text, '=') // a name may have one
		if i < 1 {
			return nil, fmt.Errorf("--grant %s: say DATABASE=PRIVILEGE, such as defaultdb=read", text)
		}
		grants = append(grants, client.LogicalGrant{Database: text[:i], Privilege: text[i+1:]})
	}
	return grants, nil
}

// userArg names a user of a database.
type userArg struct {
	User string `arg:"" help:"The user's name."`
}

type dbUserCreateCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	userArg
	grantFlags
}

func (f *dbUserCreateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	grants, err := f.grants()
	if err != nil {
		return err
	}
	made, err := c.CreateDatabaseUser(ctx, d, client.DatabaseUser{Username: f.User, Grants: grants})
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, made)
	}
	fmt.Fprintf(s.out, "username  %s\npassword  %s\n", made.Username, made.Password)
	return nil
}

type dbUserGrantCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	userArg
	grantFlags
}

func (f *dbUserGrantCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	grants, err := f.grants()
	if err != nil {
		return err
	}
	changed, err := c.GrantDatabaseUser(ctx, d, f.User, grants)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, changed)
	}
	fmt.Fprintf(s.out, "%s has: %s\n", printable(changed.Username), printable(orDash(shownGrants(changed.Grants))))
	return nil
}

type dbUserResetCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	userArg
}

func (f *dbUserResetCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	made, err := c.ResetDatabaseUser(ctx, d, f.User)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, made)
	}
	fmt.Fprintf(s.out, "username  %s\npassword  %s\n", made.Username, made.Password)
	return nil
}

type dbUserDeleteCommand struct {
	apiFlags
	databaseArg
	userArg
}

func (f *dbUserDeleteCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.DeleteDatabaseUser(ctx, d, f.User); err != nil {
		return err
	}
	fmt.Fprintln(s.out, f.User, "is deleted.")
	return nil
}
