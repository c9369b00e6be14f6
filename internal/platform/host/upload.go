package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/platform"
	"steward/internal/platform/host/state"
)

var _ platform.ContinuousArchiver = (*Driver)(nil)

// archiveDir is where a node's server puts WAL segments that wait to be uploaded. It
// counts towards the plan's disk.
func (l layout) archiveDir(id cluster.ID, ordinal int) string {
	return filepath.Join(l.node(id, ordinal), "tmp", "wal")
}

// Upload implements platform.ContinuousArchiver.
func (d *Driver) Upload(ctx context.Context, want platform.Wanted, to platform.ArchiveSink) error {
	eng, err := d.engine(want.Engine)
	if err != nil {
		return err
	}
	top, err := d.topology(want.ID)
	if err != nil {
		return err
	}
	switch e := eng.(type) {
	case engine.Fetcher:
		return d.uploadArchiveDirs(ctx, want.ID, top, e, to)
	case engine.Feeder:
		if d.o.Continuous && !top.Restoring && !top.Suspended {
			return d.archiveBinlogs(ctx, want, top, e, to)
		}
	}
	return nil
}

// uploadArchiveDirs uploads those of all nodes: what a primary couldn't upload before it
// died, the others have as well.
func (d *Driver) uploadArchiveDirs(ctx context.Context, id cluster.ID, top state.Topology, eng engine.Fetcher, to platform.ArchiveSink) error {
	for _, ordinal := range append([]int{top.Primary}, top.Replicas()...) {
		if err := d.uploadArchiveDir(ctx, id, ordinal, eng, to); err != nil {
			return fmt.Errorf("archive what node %d of cluster %d has written: %w", ordinal, id, err)
		}
	}
	return nil
}

func (d *Driver) uploadArchiveDir(ctx context.Context, id cluster.ID, ordinal int, eng engine.Fetcher, to platform.ArchiveSink) error {
	root, err := os.OpenRoot(d.layout.archiveDir(id, ordinal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	rec, err := state.ReadNode(d.layout.node(id, ordinal))
	if err != nil || rec == nil {
		return err
	}
	up := &archiveUpload{root: root, eng: eng, data: d.layout.dataOf(id, ordinal), to: to}
	return up.run(ctx)
}

// recoverer is the part of an engine's driver that continuous archiving needs.
func (d *Driver) recoverer(of cluster.Engine) (engine.Recoverer, error) {
	eng, err := d.engine(of)
	if err != nil {
		return nil, err
	}
	r, ok := eng.(engine.Recoverer)
	if !ok {
		return nil, fmt.Errorf("databases of %s can't be recovered to a point in time", of)
	}
	return r, nil
}

// archiveUpload empties an archive directory. The server owns the directory: nothing
// outside it is ever read.
type archiveUpload struct {
	root *os.Root
	eng  engine.Fetcher
	data string
	to   platform.ArchiveSink
}

func (up *archiveUpload) run(ctx context.Context) error {
	if err := up.reportOverflow(ctx); err != nil {
		return err
	}
	names, err := up.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		failpoint.Here("host: before upload")
		if err := up.upload(ctx, name); err != nil {
			return err
		}
	}
	return up.remove(engine.ArchiveGapReported) // emptied: the next time is told of again
}

// reportOverflow reports, once, that the server had to drop something.
func (up *archiveUpload) reportOverflow(ctx context.Context) error {
	if _, err := up.root.Lstat(engine.ArchiveGap); err != nil {
		return ignoreMissing(err)
	}
	if err := up.to.ReportGap(ctx); err != nil {
		return err
	}
	return up.root.Rename(engine.ArchiveGap, engine.ArchiveGapReported)
}

func (up *archiveUpload) names() ([]string, error) {
	entries, err := fs.ReadDir(up.root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// upload uploads a file, and removes it when that was done or it isn't wanted.
func (up *archiveUpload) upload(ctx context.Context, name string) error {
	f, err := up.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no file", name))
	}
	head := make([]byte, engine.ArchiveHead)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	archiveID, keep, err := up.eng.ArchiveIDOf(ctx, name, head[:n], up.data)
	if err != nil {
		return err
	}
	if keep {
		if err := up.to.Put(ctx, archiveID, name, io.MultiReader(bytes.NewReader(head[:n]), f)); err != nil {
			return err
		}
	}
	failpoint.Here("host: uploaded")
	return up.remove(name)
}

func (up *archiveUpload) remove(name string) error { return ignoreMissing(up.root.Remove(name)) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clearArchiveDirs drops what was archived of data that is replaced: timeline
// histories don't say which data they are of. The servers have ended.
func (nr *nodeReconciler) clearArchiveDirs() error {
	for ordinal := range nr.top.Members {
		if err := os.RemoveAll(nr.d.layout.archiveDir(nr.want.ID, ordinal)); err != nil {
			return fmt.Errorf("clear the archive directory of node %d: %w", ordinal, err)
		}
	}
	return nil
}
