package cli

import (
	"context"
	"fmt"

	"steward/client"
)

type eventCommands struct {
	List eventListCommand `cmd:"" help:"List the newest events."`
}

type eventListCommand struct {
	apiFlags
	jsonFlag
	Most int `default:"25" help:"How many."`
}

func (f *eventListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Events(ctx, f.Most)
	if err != nil {
		return err
	}
	all = all[:min(len(all), f.Most)]
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, e := range all {
		rows[i] = []string{e.Created, e.Action, e.Entity.Label, e.Status, fmt.Sprintf("%d%%", e.PercentComplete), e.Username, e.Message}
	}
	return printTable(s.out, []string{"created", "action", "database", "status", "done", "by", "message"}, rows)
}
