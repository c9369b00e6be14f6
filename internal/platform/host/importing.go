package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/migration"
	"steward/internal/platform"
	"steward/internal/platform/host/files"
	"steward/internal/platform/host/state"
)

// runImport is where the programs of an import work. Its path is short enough for sockets.
func (l layout) runImport(id cluster.ID) string {
	return filepath.Join(l.run, "import-"+strconv.FormatInt(int64(id), 10))
}

// Examine implements platform.Importer.
func (d *Driver) Examine(ctx context.Context, id cluster.ID, from platform.ImportSource, mode migration.Mode, databases []migration.Database) (migration.Report, error) {
	eng, node, err := d.importer(ctx, id)
	if err != nil {
		return migration.Report{}, err
	}
	r, err := eng.Examine(ctx, node, sourceOf(from), mode, databases)
	return r, importFailed(id, err)
}

// Import implements platform.Importer.
func (d *Driver) Import(ctx context.Context, id cluster.ID, from platform.ImportSource, database migration.Database, report func(platform.ImportProgress)) error {
	eng, node, err := d.importer(ctx, id)
	if err != nil {
		return err
	}
	tools := &toolSandbox{d: d, dir: d.layout.runImport(id), user: d.user(int(node.Listen.Port())), node: node}
	if err := os.RemoveAll(tools.dir); err != nil { // what a crash has left
		return fmt.Errorf("import into cluster %d: %w", id, err)
	}
	err = eng.Import(ctx, node, sourceOf(from), database, tools, func(t engine.ImportProgress) { report(platform.ImportProgress(t)) })
	return importFailed(id, errors.Join(err, os.RemoveAll(tools.dir)))
}

// Empty implements platform.Importer.
func (d *Driver) Empty(ctx context.Context, id cluster.ID, database string) (bool, error) {
	eng, node, err := d.importer(ctx, id)
	if err != nil {
		return false, err
	}
	return eng.Empty(ctx, node, database)
}

// KeepUp implements platform.Importer.
func (d *Driver) KeepUp(ctx context.Context, id cluster.ID, from platform.ImportSource, database migration.Database, asked <-chan struct{}, report func(platform.ImportProgress)) error {
	eng, node, err := d.importer(ctx, id)
	if err != nil {
		return err
	}
	return importFailed(id, eng.KeepUp(ctx, node, sourceOf(from), database, asked, func(t engine.ImportProgress) { report(platform.ImportProgress(t)) }))
}

// Complete implements platform.Importer.
func (d *Driver) Complete(ctx context.Context, id cluster.ID, database migration.Database, report func(platform.ImportProgress)) error {
	eng, node, err := d.importer(ctx, id)
	if err != nil {
		return err
	}
	return importFailed(id, eng.Complete(ctx, node, database, func(t engine.ImportProgress) { report(platform.ImportProgress(t)) }))
}

// Release implements platform.Importer.
func (d *Driver) Release(ctx context.Context, c cluster.Cluster, from platform.ImportSource, database migration.Database) error {
	eng, err := d.engine(c.Engine)
	if err != nil {
		return err
	}
	return importFailed(c.ID, eng.Release(ctx, sourceOf(from), database))
}

// Leftovers implements platform.Importer.
func (d *Driver) Leftovers(c cluster.Cluster, database migration.Database) string {
	eng, err := d.engine(c.Engine)
	if err != nil {
		return ""
	}
	return eng.Leftovers(database)
}

func sourceOf(from platform.ImportSource) engine.Source { return engine.Source(from) }

// importFailed makes what a source has to answer for the customer's.
func importFailed(id cluster.ID, err error) error {
	if theirs, ok := errors.AsType[*engine.SourceError](err); ok {
		return &platform.CustomerError{Reason: theirs.Reason, Passing: theirs.Passing}
	}
	if err != nil {
		return fmt.Errorf("import into cluster %d: %w", id, err)
	}
	return nil
}

// removeImports removes what a crash left of imports.
func (d *Driver) removeImports() error {
	left, err := filepath.Glob(filepath.Join(d.layout.run, "import-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// importer is the driver that brings databases over, and the primary as it has to know it.
func (d *Driver) importer(ctx context.Context, id cluster.ID) (engine.Importer, engine.Node, error) {
	top, err := d.topology(id)
	if err != nil {
		return nil, engine.Node{}, fmt.Errorf("cluster %d: %w", id, err)
	}
	if top.Rests() {
		return nil, engine.Node{}, fault.NewPrecondition("%s", platform.SleepsReason)
	}
	rec, err := state.ReadNode(d.layout.node(id, top.Primary))
	if err != nil {
		return nil, engine.Node{}, fmt.Errorf("cluster %d: %w", id, err)
	}
	if rec == nil || !rec.Bootstrapped || !d.clusterState(id).node(top.Primary).running() {
		return nil, engine.Node{}, fault.NewPrecondition("The database doesn't answer; try again soon.")
	}
	eng, node, err := d.recordedNode(ctx, rec)
	if err != nil {
		return nil, node, fmt.Errorf("cluster %d: %w", id, err)
	}
	password, err := d.keychain(d.clusterState(id)).secret(ctx, platform.RootPassword)
	if err != nil {
		return nil, node, fmt.Errorf("cluster %d: import: %w", id, err)
	}
	node.RootPassword = string(password)
	return eng, node, nil
}

// toolSandbox runs the programs of an import: as the cluster's own user, in a sandbox that has the server's programs and one
// folder, and no network. The only way out is the socket that is there for a program.
type toolSandbox struct {
	d    *Driver
	dir  string
	user int
	node engine.Node
}

// Dir implements engine.ToolSandbox.
func (w *toolSandbox) Dir() string { return w.dir }

// Run implements engine.ToolSandbox. Several may run at once; each finds its own files by their names.
func (w *toolSandbox) Run(ctx context.Context, t engine.Tool) (said []byte, err error) {
	if err := files.MakeFolder(w.dir, 0o700, w.user, w.user); err != nil {
		return nil, fmt.Errorf("make a folder to import in: %w", err)
	}
	for name, content := range t.Files {
		if err := (files.Writer{Owner: w.user, Group: w.user, Mode: 0o600, Folders: 0o700}).Write(w.dir, name, content, false); err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.Socket != "" {
		relay, err := w.relay(ctx, t)
		if err != nil {
			return nil, err
		}
		defer relay()
	}
	view := sandboxView(w.node)
	view.Read, view.Write, view.Alone = view.Read[2:], []string{w.dir}, true // the server's programs, without its configuration
	argv := append([]string{"/bin/sh", "-c", `ulimit -c 0 && ulimit -v ` + strconv.Itoa(toolMemory>>10) + ` && exec "$@"`, "sh"}, t.Argv...)
	env := append([]string{"PATH=/usr/bin:/bin"}, t.Env...)
	return w.d.tools.Pipe(ctx, w.dir, engine.Process{Argv: w.d.sandbox.Wrap(argv, view, w.dir), Env: env, Polite: true}, t.Stdin, t.Stdout)
}

// toolMemory is how much address space a program may have.
const toolMemory = 2 << 30

// relay listens at a tool's socket and joins each connection to one of the tool's, until the function that it returns is called.
func (w *toolSandbox) relay(ctx context.Context, t engine.Tool) (end func(), err error) {
	path := filepath.Join(w.dir, t.Socket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	if w.user != 0 {
		if err := os.Lchown(path, w.user, w.user); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	var joined sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	joined.Go(func() {
		for {
			inner, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			joined.Go(func() { w.join(ctx, inner, t) })
		}
	})
	return func() {
		cancel()
		_ = l.Close()
		joined.Wait()
	}, nil
}

// join passes on what both ends say, until one of them ends or ctx does.
func (w *toolSandbox) join(ctx context.Context, inner net.Conn, t engine.Tool) {
	defer inner.Close()
	outer, err := t.Connect(ctx)
	if err != nil {
		w.d.log.Info("the source of an import can't be reached", "cluster_id", w.node.Cluster, "error", err)
		return
	}
	defer outer.Close()
	over := context.AfterFunc(ctx, func() { _ = errors.Join(inner.Close(), outer.Close()) })
	defer over()
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either end may go at any time
		done <- struct{}{}
	}
	go pass(outer, inner)
	go pass(inner, outer)
	<-done
	_ = errors.Join(inner.Close(), outer.Close())
	<-done
}
