package cli

import (
	"context"
	"fmt"

	"steward/client"
)

type backupFinalsCommand struct {
	apiFlags
	jsonFlag
}

func (f *backupFinalsCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.FinalBackups(ctx)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, b := range all {
		rows[i] = []string{fmt.Sprint(b.ID), b.Label, b.Engine + "/" + b.Version, b.Type, b.Created, b.Expires}
	}
	return printTable(s.out, []string{"id", "label", "engine", "type", "taken", "removed"}, rows)
}

type backupDropFinalCommand struct {
	apiFlags
	ID int64 `arg:"" help:"Id of the database that was deleted."`
}

func (f *backupDropFinalCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	if err := c.DeleteFinalBackup(ctx, f.ID); err != nil {
		return err
	}
	fmt.Fprintln(s.out, "It is removed.")
	return nil
}
