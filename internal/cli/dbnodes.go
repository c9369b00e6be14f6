package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"steward/client"
)

type dbNodesCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	History bool `help:"Show the changes of the primary instead."`
	Most    int  `default:"25" help:"With --history: how many."`
}

func (f *dbNodesCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if f.History {
		return f.history(ctx, s, c, d)
	}
	n, err := c.Nodes(ctx, d)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, n)
	}
	if n.Sleeping {
		fmt.Fprintf(s.out, "%s sleeps since %s, until somebody connects.\n", d.Label, n.SleepingSince)
	}
	return printNodes(s.out, n.Data)
}

func (f *dbNodesCommand) history(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	all, err := c.NodeHistory(ctx, d, f.Most)
	if err != nil {
		return err
	}
	all = all[:min(len(all), f.Most)]
	if f.JSON {
		return printJSON(s.out, all)
	}
	rows := make([][]string, len(all))
	for i, p := range all {
		rows[i] = []string{p.Time, p.Kind, shownNumber(p.From), shownNumber(p.To), shownNumber(p.Seconds), p.Message}
	}
	return printTable(s.out, []string{"time", "kind", "from", "to", "seconds", "message"}, rows)
}

func printNodes(w io.Writer, nodes []client.Node) error {
	rows := make([][]string, len(nodes))
	for i, n := range nodes {
		rows[i] = []string{
			strconv.Itoa(n.Node), n.Role, n.Health, orDash(n.Since), shownNumber(n.LagSeconds), shownNumber(n.LagBytes), orDash(n.Position), orDash(n.Version),
		}
	}
	return printTable(w, []string{"node", "role", "health", "since", "lag s", "lag bytes", "position", "version"}, rows)
}

// shownNumber is a number in the fewest digits, a dash for none.
func shownNumber[T int | int64 | float64](n *T) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatFloat(float64(*n), 'f', -1, 64)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
