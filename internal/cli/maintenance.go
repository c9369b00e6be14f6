package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"steward/client"
)

type maintenanceCommands struct {
	List maintenanceListCommand `cmd:"" help:"List what waits for the maintenance windows of all databases."`
}

type maintenanceListCommand struct {
	apiFlags
	jsonFlag
}

func (f *maintenanceListCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	all, err := c.Maintenance(ctx)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, m := range all {
		rows[i] = []string{fmt.Sprint(m.Entity.ID), m.Entity.Label, m.Status, cmp.Or(m.When, "-"), cmp.Or(m.Deadline, "-"), m.Reason}
	}
	return printTable(s.out, []string{"database", "label", "status", "window", "deadline", "what"}, rows)
}

// printPending says below a database what waits for its window.
func printPending(w io.Writer, d client.Database) {
	for _, p := range d.Updates.Pending {
		fmt.Fprintf(w, "\nIn the maintenance window of %s: %s", cmp.Or(p.PlannedFor, "after the database is resumed"), p.Description)
		if p.Deadline != "" {
			fmt.Fprintf(w, " It must be done by %s.", p.Deadline)
		}
	}
	if len(d.Updates.Pending) > 0 {
		fmt.Fprintln(w)
	}
}
