package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"steward/client"
)

type dbStatisticsCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	By    string `default:"total_time" enum:"total_time,calls,mean,rows" help:"What the greatest come first by: total_time, calls, mean or rows."`
	Most  int    `default:"25" help:"How many."`
	Reset bool   `help:"Have the server count anew."`
}

func (f *dbStatisticsCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if f.Reset {
		if err := c.ResetStatements(ctx, d); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "%s counts statements anew.\n", d.Label)
		return nil
	}
	found, err := c.Statements(ctx, d, f.By, f.Most)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, found)
	}
	return printStatements(s.out, found)
}

func printStatements(w io.Writer, found client.Statements) error {
	if found.Missing != "" {
		fmt.Fprintln(w, found.Missing)
		return nil
	}
	rows := make([][]string, len(found.Data))
	for i, one := range found.Data {
		rows[i] = []string{
			fmt.Sprintf("%.1f%%", 100*one.Share), shownAge(one.Total), shownMean(one.Mean), strconv.FormatInt(one.Calls, 10), strconv.FormatInt(one.Rows, 10),
			orDash(one.User), orDash(one.Database), one.ID, cut(one.Query, 100),
		}
	}
	return printTable(w, []string{"share", "total", "mean", "calls", "rows", "user", "database", "id", "query"}, rows)
}

// shownMean is a time of a statement, which may be some microseconds.
func shownMean(seconds float64) string { return strconv.FormatFloat(1000*seconds, 'f', 3, 64) + "ms" }

type dbPlanCommand struct {
	apiFlags
	databaseArg
	Query string `arg:"" optional:"" help:"One statement. It isn't carried out."`
	ID    string `help:"A statement of 'db queries statistics' instead, with PostgreSQL."`
	In    string `help:"The logical database; the one that the server is made with when left out."`
}

func (f *dbPlanCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	if (f.Query == "") == (f.ID == "") {
		return errors.New("say which statement: as the second argument, or by --id")
	}
	asked := client.AskedPlan{Database: f.In, Query: f.Query, QueryID: f.ID}
	if f.Query != "" && f.In == "" {
		asked.Database = d.DatabaseName
	}
	plan, err := c.Plan(ctx, d, asked)
	if err != nil {
		return err
	}
	return printJSON(s.out, json.RawMessage(plan))
}
