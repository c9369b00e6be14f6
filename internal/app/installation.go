package app

import (
	"context"

	"steward/internal/doctor"
)

// installation is what operators look at by the API: the server that answers, and its machine.
type installation struct{ *App }

// Examine implements api.Installation. It tells what the server found when it started, and of regions what is true now.
func (a installation) Examine(ctx context.Context) (doctor.Report, error) {
	return doctor.ExamineWith(ctx, a.host, a.dir, a.o.Config)
}

// Nodes implements api.Installation.
func (a installation) Nodes() ([]doctor.Node, error) { return a.host.Nodes() }
