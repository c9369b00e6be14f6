package host

import (
	"context"

	"steward/internal/engine"
)

// ScopeOf is for tests that look for processes by their mark.
func ScopeOf(dir string) string { return scopeOf(dir) }

// EmptyTrash deletes what is in the trash now.
func EmptyTrash(ctx context.Context, d *Driver) error { return d.trash.Empty(ctx) }

// HasData reports whether a server's data is in dir.
func HasData(d *Driver, dir string) bool { return d.hasData(dir) }

// Ready is how many clones wait for the installation.
func Ready(d *Driver, id string) int {
	for _, i := range d.Installations() {
		if i.ID() == id {
			return d.templates.Ready(i)
		}
	}
	return 0
}

// MakeTemplate makes the installation's template unless it is there.
func MakeTemplate(ctx context.Context, d *Driver, inst engine.Installation) error {
	return d.templates.Make(ctx, inst)
}

// RunTool runs a program as an import of a cluster of the port would.
func RunTool(ctx context.Context, d *Driver, inst engine.Installation, port int, t func(dir string) engine.Tool) ([]byte, error) {
	w := &toolSandbox{d: d, dir: d.layout.runImport(1), user: d.user(port), node: engine.Node{Installation: inst}}
	return w.Run(ctx, t(w.dir))
}
