package control

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/parameter"
	"steward/internal/store"
)

// Logs are the use cases of what databases' servers have written.
type Logs struct{ Deps }

// List is a page of lines, and the token of the next. The servers needn't run for it.
func (s *Logs) List(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, q insight.LogQuery, faults fault.Faults) ([]insight.LogLine, insight.LogToken, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return nil, insight.LogToken{}, err
	}
	return s.of(ctx, c, q, faults)
}

// of are the lines of one database.
func (s *Logs) of(ctx context.Context, c cluster.Cluster, q insight.LogQuery, faults fault.Faults) ([]insight.LogLine, insight.LogToken, error) {
	faults = append(faults, s.region(c, func(can catalog.Abilities) bool { return can.Logs }, "asked for their logs")...)
	if q.Node != nil && (*q.Node < 0 || *q.Node >= c.Size) {
		faults = append(faults, fault.Range("node", 0, c.Size-1))
	}
	if !q.From.IsZero() && !q.To.IsZero() && q.To.Before(q.From) {
		faults.Add("to", "Must not be before from")
	}
	if len(faults) > 0 {
		return nil, insight.LogToken{}, faults
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := s.Platform.Logs(short, c.ID, q)
	if err != nil {
		return nil, insight.LogToken{}, s.lookFailed(ctx, err, "read the logs", c.ID)
	}
	page, next := q.Page(found)
	return page, next, nil
}

// SlowStatements are a page of statements that took longer than their database's owner wants.
type SlowStatements struct {
	List []insight.LogLine
	Next insight.LogToken
	// Threshold is what the owner chose, Missing why none are logged; "" when they are.
	Threshold time.Duration
	Missing   string
}

// Slow is a page of the statements that a database's servers have logged since they took long. Those that were logged before
// the owner chose otherwise are among them.
func (s *Logs) Slow(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, q insight.LogQuery, faults fault.Faults) (found SlowStatements, err error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return found, err
	}
	var chosen bool
	if found.Threshold, chosen = c.Config.SlowThreshold(string(engine)); !chosen {
		found.Missing = parameter.HowToLogSlow(string(engine))
	}
	found.List, found.Next, err = s.of(ctx, c, q, faults)
	return found, err
}
