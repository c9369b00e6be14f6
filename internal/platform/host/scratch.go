package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// Verify implements platform.Archiver. The scratch server is a cluster of its
// own as far as processes, folders and addresses go, and gone afterwards.
func (d *Driver) Verify(ctx context.Context, want platform.Wanted, c platform.Copy, r io.Reader) error {
	if err := d.verify(ctx, want, c, r); err != nil {
		return fmt.Errorf("verify a backup of cluster %d: %w", want.ID, err)
	}
	return nil
}

// scratchGone is how long a scratch server may take to be gone.
const scratchGone = time.Minute

func (d *Driver) verify(ctx context.Context, want platform.Wanted, c platform.Copy, r io.Reader) error {
	ctx, done, err := d.verifications.begin(ctx, want.ID)
	if err != nil {
		return fmt.Errorf("%w: %w", platform.ErrUnverified, err)
	}
	defer done()
	s, err := d.newScratch(ctx, want, c)
	if err != nil {
		return fmt.Errorf("%w: %w", platform.ErrUnverified, err)
	}
	err = s.verify(ctx, r)
	if err != nil && (ctx.Err() != nil || errors.Is(err, engine.ErrUnchecked)) {
		err = fmt.Errorf("%w: %w", platform.ErrUnverified, err)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), scratchGone)
	defer cancel()
	if left := s.remove(ending); left != nil && err == nil {
		return fmt.Errorf("%w: the scratch server is still there: %w", platform.ErrUnverified, left)
	} else if left != nil {
		d.log.Warn("remove a scratch server", "cluster_id", want.ID, "error", left)
	}
	return err
}

// verifications are those under way, and recoveries, which use the same folder: one of a cluster at most.
type verifications struct {
	mu      sync.Mutex
	running map[cluster.ID]*verification
}

type verification struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (v *verifications) begin(ctx context.Context, id cluster.ID) (context.Context, func(), error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running[id] != nil {
		return nil, nil, errors.New("another backup of the cluster is being verified")
	}
	if v.running == nil {
		v.running = map[cluster.ID]*verification{}
	}
	ctx, cancel := context.WithCancel(ctx)
	begun := &verification{cancel: cancel, done: make(chan struct{})}
	v.running[id] = begun
	return ctx, func() {
		cancel()
		v.mu.Lock()
		defer v.mu.Unlock()
		delete(v.running, id)
		close(begun.done)
	}, nil
}

// replace is begin for a recovery: the verification of a backup gives way to it.
func (v *verifications) replace(ctx context.Context, id cluster.ID) (context.Context, func(), error) {
	for {
		if err := v.end(ctx, id); err != nil {
			return nil, nil, err
		}
		if taken, done, err := v.begin(ctx, id); err == nil {
			return taken, done, nil
		}
	}
}

// end ends the verification of a cluster's backup, if there is one, and waits until
// nothing is left of it.
func (v *verifications) end(ctx context.Context, id cluster.ID) error {
	v.mu.Lock()
	begun := v.running[id]
	v.mu.Unlock()
	if begun == nil {
		return nil
	}
	begun.cancel()
	select {
	case <-begun.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("end the verification of a backup of cluster %d: %w", id, ctx.Err())
	}
}

// scratch is a server that is only there to be looked at.
type scratch struct {
	*nodeReconciler
	copy  platform.Copy
	group process.Group
}

// scratchOrdinal names the scratch server among the cluster's nodes; no node
// has it.
const scratchOrdinal = state.MaxNodes

func (d *Driver) newScratch(ctx context.Context, want platform.Wanted, c platform.Copy) (*scratch, error) {
	// What was chosen for sessions mustn't hold up what is replayed or looked through.
	want.Installation, want.ReadOnly, want.Config = c.Installation, false, nil
	cs := newClusterState(want.ID) // nobody watches it
	top := state.Topology{Size: 1, Primary: scratchOrdinal}
	nr, err := d.newNodeReconciler(ctx, d.keychain(cs), want, top, scratchOrdinal)
	if err != nil {
		return nil, err
	}
	nr.dir = d.layout.scratch(want.ID)
	nr.node.Data, nr.node.Conf, nr.node.TLS = filepath.Join(nr.dir, "data"), filepath.Join(nr.dir, "conf"), filepath.Join(nr.dir, "tls")
	nr.node.Tmp, nr.node.Log = filepath.Join(nr.dir, "tmp"), filepath.Join(nr.dir, "log")
	nr.node.ArchiveDir, nr.node.Pooler = "", netip.Addr{}
	nr.node.Listen = d.scratchAddress(want.Port)
	if d.o.Networks != nil {
		nr.node.Clients = []netip.Prefix{netip.PrefixFrom(d.o.Networks.Gateway(), 32)}
	}
	s := &scratch{nodeReconciler: nr, copy: c}
	if err := s.remove(ctx); err != nil { // what a crash has left
		return nil, err
	}
	return s, s.runWith(c.Installation)
}

// removeScratch ends what a crash left of a scratch server.
func (d *Driver) removeScratch(ctx context.Context, id cluster.ID) error {
	dir := d.layout.scratch(id)
	if !exists(dir) {
		return nil
	}
	nr := &nodeReconciler{d: d, ns: newClusterState(id).node(scratchOrdinal), dir: dir}
	nr.want.ID = id
	nr.node.Run, nr.node.Keys = d.layout.runNode(id, scratchOrdinal), d.layout.keysNode(id, scratchOrdinal)
	return (&scratch{nodeReconciler: nr}).remove(ctx)
}

// removeScratches ends what a crash left of scratch servers of any cluster.
func (d *Driver) removeScratches(ctx context.Context) error {
	entries, err := os.ReadDir(d.layout.scratches())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("list scratch servers: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if id, err := strconv.ParseInt(e.Name(), 10, 64); err == nil {
			errs = append(errs, d.removeScratch(ctx, cluster.ID(id)))
		}
	}
	return errors.Join(errs...)
}

// verify unpacks, starts, and looks through all data.
func (s *scratch) verify(ctx context.Context, r io.Reader) error {
	if err := s.serve(ctx, r); err != nil {
		return err
	}
	return s.eng.Check(ctx, s.node, s.checkTime)
}

// checkTime is how long it may take to check a table or an index of so many bytes.
func (s *scratch) checkTime(bytes int64) time.Duration {
	const base, slowest = 30 * time.Second, 4 << 20
	return cmp.Or(s.d.o.CheckTime, base) + time.Duration(bytes/slowest)*time.Second
}

// launch starts the server with one processor at most.
func (s *scratch) launch(ctx context.Context) (err error) {
	limits := s.limits()
	limits.CPUs = 1
	if s.group, err = s.d.groups.Make(s.name(), limits); err != nil {
		return err
	}
	start := spec(s.newLaunch(), s.identity(), s.dir, s.group)
	start.OOMScore = 0 // nobody's sessions end with it
	var p *process.Process
	err = s.d.inNetwork(ctx, scratchOrdinal, s.want.Port, func() (err error) {
		p, err = process.Start(start)
		return err
	})
	if err != nil {
		return err
	}
	s.ns.setProcess(p)
	return nil
}

func (s *scratch) identity() process.Identity {
	return process.Identity{Mark: s.d.scope + "/" + nodeName(s.want.ID, scratchOrdinal), Dir: s.dir}
}

func (s *scratch) awaitStart(ctx context.Context) error {
	err := s.ns.process().Await(ctx, 20*time.Millisecond, func(ctx context.Context) (bool, error) {
		err := s.eng.Ping(ctx, s.node)
		return err == nil || errors.Is(err, engine.ErrAuthentication), err
	})
	switch {
	case errors.Is(err, process.ErrEnded):
		err = &engine.ExitError{LastWords: lastWords(s.dir, s.eng)}
	case errors.Is(err, engine.ErrAuthentication):
		return fmt.Errorf("the copy is of a server with another password: %w", err)
	case err == nil:
		return nil
	}
	return fmt.Errorf("the server doesn't start on the copy: %w", err)
}

// remove leaves nothing.
func (s *scratch) remove(ctx context.Context) error {
	group := s.d.groups.Find(s.name())
	if err := process.KillAll(ctx, s.identity(), group); err != nil {
		return err
	}
	var errs []error
	if group != nil {
		errs = append(errs, group.Remove(ctx))
	}
	errs = append(errs, s.d.removeNetworks(ctx, s.want.Port, scratchOrdinal))
	for _, dir := range []string{s.dir, s.node.Run, s.node.Keys} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}
