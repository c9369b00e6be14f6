package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"steward/client"
	"steward/internal/wait"
)

type dbTopCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	Once  bool          `help:"Print it once, and end."`
	Every time.Duration `default:"2s" help:"How often to look, a second at least."`
}

// top is what a look at a database finds.
type top struct {
	Time       string            `json:"time"`
	Label      string            `json:"label"`
	Status     string            `json:"status"`
	Nodes      client.Nodes      `json:"nodes"`
	Running    client.Running    `json:"running"`
	Statements client.Statements `json:"statements"`
}

func (f *dbTopCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	// What a terminal obeys: the cursor at home, and nothing on the screen.
	const home = "\x1b[H\x1b[2J"
	for {
		t, err := lookAt(ctx, c, d)
		if ctx.Err() != nil {
			return nil // it was ended by hand
		}
		if err != nil {
			return err
		}
		var text bytes.Buffer
		switch {
		case f.JSON:
			err = printJSONLine(&text, t)
		case f.Once:
			err = t.print(&text)
		default:
			text.WriteString(home)
			err = t.print(&text)
		}
		if err != nil {
			return err
		}
		if _, err := s.out.Write(text.Bytes()); err != nil || f.Once {
			return err
		}
		if wait.Sleep(ctx, max(f.Every, time.Second)) != nil {
			return nil
		}
	}
}

// lookAt asks for all that is shown.
func lookAt(ctx context.Context, c *client.Client, d client.Database) (top, error) {
	fresh, err := c.Database(ctx, d)
	if err != nil {
		return top{}, err
	}
	t := top{Time: time.Now().UTC().Format("2006-01-02T15:04:05"), Label: fresh.Label, Status: shownStatus(fresh)}
	if t.Nodes, err = c.Nodes(ctx, d); err != nil {
		return t, err
	}
	if t.Running, err = c.Running(ctx, d); err != nil {
		return t, err
	}
	t.Statements, err = c.Statements(ctx, d, "total_time", mostShown)
	return t, err
}

// mostShown is how many sessions, and statements, fit on a screen.
const mostShown = 10

func (t top) print(w io.Writer) error {
	fmt.Fprintf(w, "%s  %s  %s\n\n", t.Label, t.Status, t.Time)
	if err := printNodes(w, t.Nodes.Data); err != nil {
		return err
	}
	if t.Running.Sleeping {
		fmt.Fprintln(w, "\nIt sleeps until somebody connects.")
		return nil
	}
	fmt.Fprintln(w)
	if n := len(t.Running.Data); n > 0 {
		fmt.Fprintln(w, sessionsThat(n, "", "do something", "does something")+":")
	}
	if err := printRunning(w, t.Running, mostShown); err != nil {
		return err
	}
	fmt.Fprintln(w)
	return printStatements(w, t.Statements)
}
