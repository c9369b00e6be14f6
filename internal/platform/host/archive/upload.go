package archive

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
	"steward/internal/platform"
)

// Identify returns the id of the archive that a file belongs in, by its name and its
// first engine.ArchiveHead bytes, and whether the file is to be kept at all.
type Identify func(ctx context.Context, name string, head []byte) (archiveID string, keep bool, err error)

// Upload empties an archive directory, oldest file first. There may be none. The server
// owns it: nothing outside it is ever read.
func Upload(ctx context.Context, dir string, identify Identify, to platform.ArchiveSink) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	defer root.Close()
	up := &upload{root: root, identify: identify, to: to}
	return up.run(ctx)
}

type upload struct {
	root     *os.Root
	identify Identify
	to       platform.ArchiveSink
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
		failpoint.Here("host: before upload")
		if err := up.one(ctx, name); err != nil {
			return err
		}
	}
	return up.remove(engine.ArchiveGapReported) // emptied: the next gap is reported again
}

// reportGap reports, once, that the server had to drop something.
func (up *upload) reportGap(ctx context.Context) error {
	if _, err := up.root.Lstat(engine.ArchiveGap); err != nil {
		return ignoreMissing(err)
	}
	if err := up.to.ReportGap(ctx); err != nil {
		return err
	}
	return up.root.Rename(engine.ArchiveGap, engine.ArchiveGapReported)
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
	head := make([]byte, engine.ArchiveHead)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	archiveID, keep, err := up.identify(ctx, name, head[:n])
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

func (up *upload) remove(name string) error { return ignoreMissing(up.root.Remove(name)) }

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
