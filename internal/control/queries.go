package control

import (
	"context"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/insight"
	"steward/internal/store"
)

// Queries are the use cases of what databases are doing and have done.
type Queries struct{ clusterChanges }

// into is a database that can be looked into now. One that sleeps can, and has nothing.
func (s *Queries) into(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return err
	}
	return cluster.Require(c.Status, cluster.RequestLook)
}

// intoAsWriter is into for those who may change the database.
func (s *Queries) intoAsWriter(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) error {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return err
	}
	if err := s.mayWrite(ctx, p, id); err != nil {
		return err
	}
	return cluster.Require(c.Status, cluster.RequestLook)
}

// Running are the sessions of a database that do something, those first that cause the most
// trouble. The database isn't woken by it.
func (s *Queries) Running(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (insight.Sessions, error) {
	if err := s.into(ctx, p, engine, id); err != nil {
		return insight.Sessions{}, err
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err := s.Platform.Sessions(short, id)
	if err != nil {
		return found, s.lookFailed(ctx, err, "look at the sessions", id)
	}
	found.Sort()
	return found, nil
}

// End tells one of a database's sessions to stop what it does, or to end.
func (s *Queries) End(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, session string, how insight.EndMode) error {
	if err := s.intoAsWriter(ctx, p, engine, id); err != nil {
		return err
	}
	name, ok := insight.ParseSessionID(session)
	if !ok {
		return fault.NewNotFound()
	}
	short, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if err := s.Platform.EndSession(short, id, name, how); fault.IsKind(err, fault.NotFound) {
		return fault.NewNotFound()
	} else if err != nil {
		return s.lookFailed(ctx, err, "end a session", id)
	}
	return nil
}
