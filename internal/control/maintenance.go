package control

import (
	"context"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/store"
)

// Maintenance are the use cases of what waits for maintenance windows.
type Maintenance struct{ Deps }

// Planned is a task of a database, and the window it is planned for.
type Planned struct {
	cluster.Cluster
	cluster.Task
	// Start and End are the window's. Begun reports whether the work goes on.
	Start, End time.Time
	Begun      bool
}

// List is all that waits for the windows of the databases that the caller sees.
func (s *Maintenance) List(ctx context.Context, p account.Principal) ([]Planned, error) {
	clusters, err := s.Store.ClustersWithTasks(ctx, store.ViewerOf(p))
	if err != nil {
		return nil, err
	}
	var all []Planned
	for _, c := range clusters {
		all = append(all, Plan(c, s.Now())...)
	}
	return all, nil
}

// Plan is what waits for a database's window, and when that is.
func Plan(c cluster.Cluster, now time.Time) []Planned {
	start, end := c.NextWindow(now)
	begun := c.Maintaining(now)
	if begun {
		start, end = c.Updates.Current(now)
	}
	planned := make([]Planned, len(c.Maintenance.Tasks))
	for i, t := range c.Maintenance.Tasks {
		planned[i] = Planned{Cluster: c, Task: t, Start: start, End: end, Begun: begun}
	}
	return planned
}
