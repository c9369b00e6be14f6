package cli

import (
	"context"
	"fmt"

	"steward/client"
)

type dbExtensionCommands struct {
	Offered dbExtensionOfferedCommand `cmd:"" help:"List the extensions that series of PostgreSQL come with on this server."`

	List   dbExtensionListCommand   `cmd:"" help:"List the extensions that can be had, and those that are there."`
	Create dbExtensionCreateCommand `cmd:"" help:"Create an extension, with all that it needs."`
	Update dbExtensionUpdateCommand `cmd:"" help:"Bring an extension to another version."`
	Drop   dbExtensionDropCommand   `cmd:"" help:"Drop an extension."`
}

// logicalFlag names the logical database that a command is about.
type logicalFlag struct {
	Logical string `name:"database" default:"defaultdb" help:"The logical database."`
}

type dbExtensionListCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	logicalFlag
}

func (f *dbExtensionListCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.Extensions(ctx, d, f.Logical)
	if err != nil {
		return err
	}
	return printExtensions(s, all, f.JSON)
}

func printExtensions(s *streams, all []client.Extension, asJSON bool) error {
	return printList(s.out, all, asJSON, []string{"name", "version", "installed", "schema", "what it is"}, func(x client.Extension) []string {
		return []string{x.Name, x.Version, orDash(x.Installed), orDash(x.Schema), whatItIs(x.Missing, x.Comment)}
	})
}

// whatItIs describes an extension, or says what it lacks.
func whatItIs(missing, comment string) string {
	if missing != "" {
		return "not now: " + missing
	}
	return cut(comment, 80)
}

type dbExtensionOfferedCommand struct {
	apiFlags
	jsonFlag
	Series string `name:"engine-version" help:"A series, such as 15; all when left out."`
}

func (f *dbExtensionOfferedCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.OfferedExtensions(ctx, f.Series)
	if err != nil {
		return err
	}
	return printList(s.out, all, f.JSON, []string{"name", "engine", "version", "loaded by", "what it is"}, func(x client.OfferedExtension) []string {
		what := cut(x.Comment, 80)
		if x.Missing != "" {
			what = "not offered: " + x.Missing
		}
		return []string{x.Name, x.Engine, x.Version, orDash(x.Parameter), what}
	})
}

// extensionArg names an extension.
type extensionArg struct {
	Name string `arg:"" help:"The extension's name."`
}

type dbExtensionCreateCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	extensionArg
	logicalFlag
	Schema string `help:"Where its objects are made. When left out, public, or a new schema for an extension that needs one of its own."`
}

func (f *dbExtensionCreateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	made, err := c.CreateExtension(ctx, d, f.Logical, f.Name, f.Schema)
	if err != nil {
		return err
	}
	return printOne(s, made, f.JSON, printExtensions)
}

type dbExtensionUpdateCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	extensionArg
	logicalFlag
	To string `help:"The version; the one that the server has when left out."`
}

func (f *dbExtensionUpdateCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	changed, err := c.UpdateExtension(ctx, d, f.Logical, f.Name, f.To)
	if err != nil {
		return err
	}
	return printOne(s, changed, f.JSON, printExtensions)
}

type dbExtensionDropCommand struct {
	apiFlags
	databaseArg
	extensionArg
	logicalFlag
	Cascade bool `help:"Drop what depends on it, too."`
}

func (f *dbExtensionDropCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.DropExtension(ctx, d, f.Logical, f.Name, f.Cascade); err != nil {
		return err
	}
	fmt.Fprintln(s.out, f.Name, "is dropped.")
	return nil
}
