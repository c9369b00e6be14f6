package memplatform

import (
	"context"
	"errors"
	"slices"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/logical"
	"steward/internal/platform"
)

// Inside is what a look into a cluster finds; tests put it there.
type Inside struct {
	Sessions insight.Sessions
	// Statements are counted; Texts are what is kept of them, by their ids. Plan is what every statement has, and
	// Planned are those that were asked for.
	Statements insight.Statements
	Texts      map[string]string
	Plan       insight.Plan
	Planned    []string
	Log        []insight.LogLine
	// Databases and Users are what is inside; defaultdb alone while Databases is nil.
	Databases []logical.Database
	Users     []LogicalUser
	// Coming is a database that the server is still making, for a session that is gone; "" for none. It waits with it for the next one who
	// makes one of that name.
	Coming string
	// Extensions are those of every database.
	Extensions []logical.Extension
	// Ended are the sessions that were told to stop.
	Ended []string
}

// errDown is what a look into a server that doesn't run ends with.
var errDown = errors.New("no server answers")

// inside looks into a cluster whose primary runs; nothing of one that rests.
func (d *Driver) inside(ctx context.Context, id cluster.ID, look func(*Inside) error) error {
	return d.faults.around(ctx, StepInspect, id, func() (err error) {
		changed := d.change(id, func(c *Cluster) {
			switch {
			case c.Suspended || !c.SleepingSince.IsZero():
			case !c.up(c.Primary):
				err = errDown
			default:
				err = look(&c.Inside)
			}
		})
		return errors.Join(changed, err)
	})
}

// Sessions implements platform.Inspector.
func (d *Driver) Sessions(ctx context.Context, id cluster.ID) (found insight.Sessions, err error) {
	err = d.inside(ctx, id, func(in *Inside) error {
		found = in.Sessions
		found.List = slices.Clone(found.List)
		return nil
	})
	c, _ := d.world.Cluster(id)
	found.Sleeping = !c.SleepingSince.IsZero()
	return found, err
}

// EndSession implements platform.Inspector.
func (d *Driver) EndSession(ctx context.Context, id cluster.ID, session insight.SessionID, how insight.EndMode) error {
	ended := false
	err := d.inside(ctx, id, func(in *Inside) error {
		before := len(in.Sessions.List)
		in.Sessions.List = slices.DeleteFunc(slices.Clone(in.Sessions.List), func(s insight.Session) bool { return s.SessionID == session })
		if ended = len(in.Sessions.List) < before; ended {
			in.Ended = append(in.Ended, string(how)+" "+session.String())
		}
		return nil
	})
	if err == nil && !ended {
		err = fault.NewNotFound()
	}
	return err
}

// Statements implements platform.Inspector.
func (d *Driver) Statements(ctx context.Context, id cluster.ID, _ insight.StatementOrder, first, most int) (found insight.Statements, err error) {
	err = d.inside(ctx, id, func(in *Inside) error {
		found = in.Statements
		from := min(first, len(found.List))
		found.List = slices.Clone(found.List[from:min(from+most, len(found.List))])
		return nil
	})
	c, _ := d.world.Cluster(id)
	found.Sleeping = !c.SleepingSince.IsZero()
	return found, err
}

// ResetStatements implements platform.Inspector.
func (d *Driver) ResetStatements(ctx context.Context, id cluster.ID) (missing string, err error) {
	missing = platform.SleepsReason
	err = d.inside(ctx, id, func(in *Inside) error {
		if missing = in.Statements.Missing; missing == "" {
			in.Statements = insight.Statements{}
		}
		return nil
	})
	return missing, err
}

// StatementText implements platform.Inspector.
func (d *Driver) StatementText(ctx context.Context, id cluster.ID, statement string) (text, database string, err error) {
	err = d.inside(ctx, id, func(in *Inside) error {
		text, database = in.Texts[statement], "defaultdb"
		return nil
	})
	return text, database, err
}

// Plan implements platform.Inspector.
func (d *Driver) Plan(ctx context.Context, id cluster.ID, database, text string) (found insight.Plan, err error) {
	found.Refused = platform.SleepsReason
	err = d.inside(ctx, id, func(in *Inside) error {
		in.Planned = append(in.Planned, database+": "+text)
		found = in.Plan
		return nil
	})
	return found, err
}

// Logs implements platform.Inspector.
func (d *Driver) Logs(ctx context.Context, id cluster.ID, q insight.LogQuery) (found []insight.LogLine, err error) {
	err = d.faults.around(ctx, StepInspect, id, func() error {
		c, _ := d.world.Cluster(id)
		for _, l := range c.Inside.Log {
			if q.Wants(l) {
				found = append(found, l)
			}
		}
		return nil
	})
	return found, err
}
