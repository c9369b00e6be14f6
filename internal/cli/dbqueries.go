package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"steward/client"
)

type dbQueriesCommands struct {
	Running    dbRunningCommand    `cmd:"" default:"withargs" help:"List what sessions are doing: those first that block others."`
	Statistics dbStatisticsCommand `cmd:"" help:"List what statements have cost."`
	Slow       dbSlowCommand       `cmd:"" help:"List statements that took longer than the database logs."`
	Cancel     dbCancelCommand     `cmd:"" help:"Cancel what a session does; the session stays."`
	End        dbEndCommand        `cmd:"" help:"End a session."`
	Plan       dbPlanCommand       `cmd:"" help:"Show how the server would carry out a statement."`
}

type dbRunningCommand struct {
	apiFlags
	jsonFlag
	databaseArg
}

func (f *dbRunningCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	r, err := c.Running(ctx, d)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, r)
	}
	if r.Sleeping {
		fmt.Fprintf(s.out, "%s sleeps until somebody connects.\n", d.Label)
		return nil
	}
	return printRunning(s.out, r, len(r.Data))
}

// printRunning prints the first sessions as a table, and what isn't in it.
func printRunning(w io.Writer, r client.Running, most int) error {
	list := r.Data[:min(most, len(r.Data))]
	rows := make([][]string, len(list))
	for i, q := range list {
		by := make([]string, len(q.BlockedBy))
		for i, pid := range q.BlockedBy {
			by[i] = strconv.FormatInt(pid, 10)
		}
		rows[i] = []string{
			strconv.FormatInt(q.Pid, 10), strconv.Itoa(q.Node), q.User, orDash(q.Database), q.State, shownAge(q.Age), orDash(strings.Join(by, ",")), orDash(q.Wait), cut(q.Query, 100),
		}
	}
	more := "more "
	if len(rows) == 0 {
		more = ""
		fmt.Fprintln(w, "No session does anything.")
	} else if err := printTable(w, []string{"pid", "node", "user", "database", "state", "age", "blocked by", "wait", "query"}, rows); err != nil {
		return err
	}
	if r.Idle > 0 {
		fmt.Fprintln(w, sessionsThat(r.Idle, more, "do nothing", "does nothing")+".")
	}
	if len(r.Unreachable) > 0 {
		fmt.Fprintf(w, "Nodes that don't answer: %v.\n", r.Unreachable)
	}
	return nil
}

// sessionsThat says how many sessions do something.
func sessionsThat(n int, more, all, one string) string {
	if n == 1 {
		return "1 " + more + "session " + one
	}
	return fmt.Sprintf("%d %ssessions %s", n, more, all)
}

// shownAge is a time in seconds as people read it.
func shownAge(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// cut is a text no longer than so many characters.
func cut(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// sessionArg names a session by its pid, or by its id where two nodes have the pid.
type sessionArg struct {
	Session string `arg:"" name:"pid" help:"The session's pid or id, from 'db queries running'."`
}

// end tells the session to stop.
func (a sessionArg) end(ctx context.Context, s *streams, c *client.Client, d client.Database, mode, said string) error {
	r, err := c.Running(ctx, d)
	if err != nil {
		return err
	}
	var found []client.Session
	for _, q := range r.Data {
		if q.ID == a.Session || strconv.FormatInt(q.Pid, 10) == a.Session {
			found = append(found, q)
		}
	}
	switch len(found) {
	case 0:
		return fmt.Errorf("no session %s of %s does anything now", a.Session, d.Label)
	case 1:
	default:
		return fmt.Errorf("pid %s is on several nodes: name the session's id, %s or %s", a.Session, found[0].ID, found[1].ID)
	}
	if err := c.EndQuery(ctx, d, found[0].ID, mode); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s %s: %s\n", printable(found[0].User), said, printableLines(found[0].Query))
	return nil
}

type dbCancelCommand struct {
	apiFlags
	databaseArg
	sessionArg
}

func (f *dbCancelCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	return f.end(ctx, s, c, d, "cancel", "was told to cancel")
}

type dbEndCommand struct {
	apiFlags
	databaseArg
	sessionArg
}

func (f *dbEndCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	return f.end(ctx, s, c, d, "end", "is ended")
}
