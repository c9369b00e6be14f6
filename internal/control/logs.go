package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
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
	faults = append(faults, s.region(c.Region, func(can catalog.Abilities) bool { return can.Logs }, "asked for their logs")...)
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
	found, err := s.Platform.Logs(short, id, q)
	if err != nil {
		return nil, insight.LogToken{}, s.lookFailed(ctx, err, "read the logs", id)
	}
	page, next := q.Page(found)
	return page, next, nil
}
