package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/client"
	"steward/internal/spell"
	"steward/internal/wait"
)

type dbUpgradeCheckCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	Version string        `required:"" help:"The newer version to try, such as 17 or 11.8."`
	Wait    time.Duration `help:"How long to wait until it is done; 0 doesn't wait." default:"1h"`
}

func (f *dbUpgradeCheckCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.CheckUpgrade(ctx, d, f.Version); err != nil || f.Wait == 0 {
		return err
	}
	found, err := checkedUpgrade(ctx, s, c, d, f.Wait)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, found)
	}
	fmt.Fprintln(s.out, printableLines(found.Message))
	if found.Status != "passed" {
		return errors.New("the version can't be had as things are")
	}
	return nil
}

// checkedUpgrade waits until the check that was begun is done.
func checkedUpgrade(ctx context.Context, s *streams, c *client.Client, d client.Database, most time.Duration) (client.UpgradeCheck, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for said := -1; ; {
		found, err := c.LastUpgradeCheck(ctx, d)
		if err != nil || found.Status != "running" {
			return found, err
		}
		if found.Percent != said {
			said = found.Percent
			fmt.Fprintf(s.err, "version %s is tried on a copy … %d %%\n", found.Version, said)
		}
		if wait.Sleep(ctx, 200*time.Millisecond) != nil {
			return found, fmt.Errorf("version %s is still being tried on a copy", found.Version)
		}
	}
}

type dbUpgradeCommand struct {
	apiFlags
	databaseArg
	Version string        `required:"" help:"The newer version, such as 17 or 11.8."`
	Wait    time.Duration `help:"How long to wait until it is done, and for the check before; 0 doesn't wait." default:"1h"`
	Yes     bool          `help:"Don't ask, and don't try it on a copy first."`
}

func (f *dbUpgradeCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if !f.Yes {
		if err := f.ask(ctx, s, c, d); err != nil {
			return err
		}
	}
	d, err := c.UpdateDatabase(ctx, d, client.UpdateDatabase{Version: &f.Version})
	if err != nil || f.Wait == 0 {
		return err
	}
	before := d.Version
	if d, err = (waitFlag{f.Wait}).settle(ctx, c, d, s); err != nil {
		return err
	}
	if d.Version == before {
		return fmt.Errorf("%s is of version %s as before; `steward event list` says why", d.Label, d.Version)
	}
	fmt.Fprintf(s.out, "%s runs %s. What was before is set aside for a day: `steward backup undo %[1]s` brings it back.\n", d.Label, d.ServerVersion)
	return nil
}

// ask tells of the pause, which a try on a copy has measured, and has the label typed.
func (f *dbUpgradeCommand) ask(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if err := c.CheckUpgrade(ctx, d, f.Version); err != nil {
		return err
	}
	found, err := checkedUpgrade(ctx, s, c, d, max(f.Wait, time.Minute))
	switch {
	case err != nil:
		return err
	case found.Status != "passed" || found.PauseSeconds == nil:
		return errors.New(strings.TrimSuffix(found.Message, "."))
	}
	fmt.Fprintf(s.out, "Move %s from version %s to %s? Nobody can write for about %s; a backup is taken before. Type its label: ",
		d.Label, d.Version, found.Version, spell.Duration(time.Duration(*found.PauseSeconds)*time.Second))
	var answer string
	if _, err := fmt.Fscanln(s.in, &answer); err != nil || answer != d.Label {
		return errors.New("nothing was changed")
	}
	return nil
}
