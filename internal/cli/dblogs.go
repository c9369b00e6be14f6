package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/client"
	"steward/internal/wait"
)

type dbLogsCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	From     string `help:"No lines before this time, such as 2026-01-31T18:04:05."`
	To       string `help:"No lines after this time."`
	Severity string `default:"info" enum:"info,warning,error,fatal" help:"No lines that are less severe: info, warning, error or fatal."`
	Node     *int   `help:"Lines of this node only."`
	Text     string `help:"Lines that have this text only."`
	Most     int    `default:"100" help:"How many: the newest."`
	Follow   bool   `help:"Go on with lines as they are written, until you end it."`
}

func (f *dbLogsCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	const page = 500
	q := client.LogQuery{From: f.From, To: f.To, Severity: f.Severity, Text: f.Text, Node: f.Node}
	var all []client.LogLine
	for len(all) < f.Most {
		q.Size = min(max(f.Most-len(all), 25), page)
		lines, next, err := c.Logs(ctx, d, q)
		if err != nil {
			return err
		}
		all = append(all, lines...)
		if q.Token = next; next == "" {
			break
		}
	}
	all = all[:min(f.Most, len(all))]
	slices.Reverse(all)
	if f.JSON && !f.Follow {
		return printJSON(s.out, all)
	}
	if err := f.print(s.out, all); err != nil || !f.Follow {
		return err
	}
	return f.follow(ctx, s, c, d, all)
}

func (f *dbLogsCommand) print(w io.Writer, lines []client.LogLine) error {
	for _, l := range lines {
		if f.JSON {
			if err := printJSONLine(w, l); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "%s  %s  %-7s  %s\n", l.Time, strconv.Itoa(l.Node), strings.ToUpper(l.Severity), strings.ReplaceAll(printableLines(l.Message), "\n", "\n    ")); err != nil {
			return err
		}
	}
	return nil
}

// follow prints what is written after the lines that were printed.
func (f *dbLogsCommand) follow(ctx context.Context, s *streams, c *client.Client, d client.Database, printed []client.LogLine) error {
	const pause = 2 * time.Second
	q := client.LogQuery{From: f.From, Severity: f.Severity, Text: f.Text, Node: f.Node, Oldest: true, Size: 500}
	if n := len(printed); n > 0 {
		q.From = printed[n-1].Time
	} else if q.From == "" {
		q.From = time.Now().UTC().Format("2006-01-02T15:04:05")
	}
	for {
		lines, next, err := c.Logs(ctx, d, q)
		if ctx.Err() != nil {
			return nil // it was ended by hand
		}
		if err != nil {
			return err
		}
		fresh := lines
		if n := len(printed); n > 0 {
			fresh, printed = after(printed[n-1], lines), nil
		}
		if err := f.print(s.out, fresh); err != nil {
			return err
		}
		if next != "" {
			q.Token = next
		}
		if len(lines) < q.Size && wait.Sleep(ctx, pause) != nil {
			return nil
		}
	}
}

// after are the lines behind one that was printed: times are shown to the second, so that others of the last one come again first.
func after(last client.LogLine, lines []client.LogLine) []client.LogLine {
	for i, l := range slices.Backward(lines) {
		if l == last {
			return lines[i+1:]
		}
	}
	return lines
}
