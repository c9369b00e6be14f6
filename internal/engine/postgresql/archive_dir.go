package postgresql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"steward/internal/engine"
	"steward/internal/failpoint"
)

// Names in a node's archive directory that are no files of the server's: it had to drop
// some since the folder was full, and that was reported; a file being written.
const (
	archiveGap         = ".overflow"
	archiveGapReported = ".told"
	archiveTemp        = ".new"
)

// archiveHead is how many of a file's first bytes identify needs.
const archiveHead = 64

// Upload implements engine.ContinuousArchiver: it empties the archive directories of all
// nodes, since what a primary couldn't upload before it died, the others have as well.
func (Driver) Upload(ctx context.Context, nodes []engine.ArchivedNode, from engine.ArchivePosition, to engine.ArchiveSink) (engine.ArchivePosition, error) {
	for _, n := range nodes {
		if err := emptyArchiveDir(ctx, n.Node, to); err != nil {
			return from, fmt.Errorf("archive what node %d has written: %w", n.Ordinal, err)
		}
	}
	return from, nil
}

// emptyArchiveDir uploads the files in a node's archive directory, oldest first. There may
// be none. The server owns it: nothing outside it is ever read.
func emptyArchiveDir(ctx context.Context, n engine.Node, to engine.ArchiveSink) error {
	root, err := os.OpenRoot(n.ArchiveDir)
	if err != nil {
		return ignoreMissing(err)
	}
	defer root.Close()
	up := &upload{root: root, data: n.Data, to: to}
	return up.run(ctx)
}

type upload struct {
	root *os.Root
	data string
	to   engine.ArchiveSink
}

func (up *upload) run(ctx context.Context) error {
	if err := up.reportGap(ctx); err != nil {
		return err
	}
	names, err := up.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		failpoint.Here("postgresql: before upload")
		if err := up.one(ctx, name); err != nil {
			return err
		}
	}
	return up.remove(archiveGapReported) // emptied: the next gap is reported again
}

// reportGap reports, once, that the server had to drop something.
func (up *upload) reportGap(ctx context.Context) error {
	if _, err := up.root.Lstat(archiveGap); err != nil {
		return ignoreMissing(err)
	}
	if err := up.to.ReportGap(ctx); err != nil {
		return err
	}
	return up.root.Rename(archiveGap, archiveGapReported)
}

func (up *upload) names() ([]string, error) {
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

// one uploads a file, and removes it when that was done or it isn't wanted.
func (up *upload) one(ctx context.Context, name string) error {
	f, err := up.root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ignoreMissing(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is no file", name))
	}
	head := make([]byte, archiveHead)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	archiveID, keep, err := identify(ctx, name, head[:n], up.data)
	if err != nil {
		return err
	}
	if keep {
		if err := up.to.Put(ctx, archiveID, name, io.MultiReader(bytes.NewReader(head[:n]), f)); err != nil {
			return err
		}
	}
	failpoint.Here("postgresql: uploaded")
	return up.remove(name)
}

func (up *upload) remove(name string) error { return ignoreMissing(up.root.Remove(name)) }

// identify returns by its name and first bytes what a file in the archive directory is
// archived under, and whether it is to be archived. A segment has the identifier in its
// own head, from byte 24 on; a history has none in it and is of the data's.
func identify(ctx context.Context, name string, head []byte, data string) (archiveID string, keep bool, err error) {
	switch {
	case segmentName.MatchString(name):
		if len(head) < 32 || head[2]&2 == 0 {
			return "", false, fmt.Errorf("%s in the archive directory is no segment", name)
		}
		return archiveIDOf(head[24:32]), true, nil
	case historyName.MatchString(name):
		control, err := readLiveControl(ctx, data)
		if err != nil {
			return "", false, err
		}
		id := control.identity().id
		return archiveIDOf(id[:]), true, nil
	}
	return "", false, nil // notes on backups, and ends of segments that others go on with
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
