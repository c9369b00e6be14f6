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
)

var _ platform.ContinuousArchiver = (*Driver)(nil)

// spool is where a node's server puts what it has finished writing. It counts
// towards the plan's disk.
func (l layout) spool(id cluster.ID, ordinal int) string {
	return filepath.Join(l.node(id, ordinal), "tmp", "wal")
}

// Upload is part of platform.ContinuousArchiver.
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
		return d.shipSpools(ctx, want.ID, top, e, to)
	case engine.Feeder:
		if d.o.Continuous && !top.Restoring && !top.Suspended {
			return d.shipAsked(ctx, want, top, e, to)
		}
	}
	return nil
}

// shipSpools: all nodes hand over; what a primary couldn't ship before it died, the
// others have as well.
func (d *Driver) shipSpools(ctx context.Context, id cluster.ID, top topology, eng engine.Fetcher, to platform.ArchiveSink) error {
	for _, ordinal := range append([]int{top.Primary}, top.replicas()...) {
		if err := d.shipSpool(ctx, id, ordinal, eng, to); err != nil {
			return fmt.Errorf("ship what node %d of cluster %d has written: %w", ordinal, id, err)
		}
	}
	return nil
}

func (d *Driver) shipSpool(ctx context.Context, id cluster.ID, ordinal int, eng engine.Fetcher, to platform.ArchiveSink) error {
	root, err := os.OpenRoot(d.layout.spool(id, ordinal))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	rec, err := readRecord(d.layout.node(id, ordinal))
	if err != nil || rec == nil {
		return err
	}
	s := &shipping{root: root, eng: eng, data: d.layout.dataOf(id, ordinal), to: to}
	return s.all(ctx)
}

// recoverer is the part of an engine's driver that continuous archiving needs.
func (d *Driver) recoverer(of cluster.Engine) (engine.Recoverer, error) {
	eng, err := d.engine(of)
	if err != nil {
		return nil, err
	}
	r, ok := eng.(engine.Recoverer)
	if !ok {
		return nil, fmt.Errorf("databases of %s can't be recovered to a moment", of)
	}
	return r, nil
}

// shipping empties a spool. The folder is the server's: nothing outside it is reached.
type shipping struct {
	root *os.Root
	eng  engine.Fetcher
	data string
	to   platform.ArchiveSink
}

func (s *shipping) all(ctx context.Context) error {
	if err := s.tellOverflow(ctx); err != nil {
		return err
	}
	names, err := s.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		failpoint.Here("host: before shipping")
		if err := s.one(ctx, name); err != nil {
			return err
		}
	}
	return s.forget(engine.ArchiveGapReported) // emptied: the next time is told of again
}

// tellOverflow tells once that the server had to drop something.
func (s *shipping) tellOverflow(ctx context.Context) error {
	if _, err := s.root.Lstat(engine.ArchiveGap); err != nil {
		return ignoreMissing(err)
	}
	if err := s.to.ReportGap(ctx); err != nil {
		return err
	}
	return s.root.Rename(engine.ArchiveGap, engine.ArchiveGapReported)
}

func (s *shipping) names() ([]string, error) {
	entries, err := fs.ReadDir(s.root.FS(), ".")
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

// one hands a file over, and removes it when that was done or it isn't wanted.
func (s *shipping) one(ctx context.Context, name string) error {
	f, err := s.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
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
	archiveID, keep, err := s.eng.ArchiveIDOf(ctx, name, head[:n], s.data)
	if err != nil {
		return err
	}
	if keep {
		if err := s.to.Put(ctx, archiveID, name, io.MultiReader(bytes.NewReader(head[:n]), f)); err != nil {
			return err
		}
	}
	failpoint.Here("host: shipped")
	return s.forget(name)
}

func (s *shipping) forget(name string) error { return ignoreMissing(s.root.Remove(name)) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// clearSpools drops what was handed over of data that is replaced: histories
// don't say which data they are of. The servers have ended.
func (j *job) clearSpools() error {
	for ordinal := range j.top.Members {
		spool := j.d.layout.spool(j.want.ID, ordinal)
		if err := os.RemoveAll(spool); err != nil {
			return fmt.Errorf("clear the spool of node %d: %w", ordinal, err)
		}
	}
	return nil
}
