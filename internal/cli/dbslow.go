package cli

import (
	"context"
	"fmt"
	"strconv"

	"steward/client"
)

type dbSlowCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	From    string  `help:"None before this time, such as 2026-01-31T18:04:05."`
	To      string  `help:"None after this time."`
	Longest float64 `name:"longer" help:"Those that took so many seconds at least."`
	Node    *int    `help:"Those of this node only."`
	Text    string  `help:"Those that have this text only."`
	Most    int     `default:"50" help:"How many: the newest."`
}

func (f *dbSlowCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	q := client.LogQuery{From: f.From, To: f.To, Text: f.Text, Node: f.Node}
	var all client.SlowStatements
	for {
		q.Size = min(max(f.Most-len(all.Data), 25), 500)
		page, err := c.Slow(ctx, d, q, f.Longest)
		if err != nil {
			return err
		}
		page.Data = append(all.Data, page.Data...)
		all, q.Token = page, page.Next
		if all.Next == "" || len(all.Data) >= f.Most {
			break
		}
	}
	all.Data = all.Data[:min(f.Most, len(all.Data))]
	if f.JSON {
		return printJSON(s.out, all)
	}
	if all.Missing != "" {
		fmt.Fprintln(s.out, all.Missing)
	}
	if all.Missing != "" && len(all.Data) == 0 {
		return nil
	}
	rows := make([][]string, len(all.Data))
	for i, one := range all.Data {
		rows[i] = []string{one.Time, strconv.Itoa(one.Node), shownAge(one.Duration), orDash(one.User), orDash(one.Database), cut(one.Query, 100)}
	}
	return printTable(s.out, []string{"time", "node", "took", "user", "database", "query"}, rows)
}
