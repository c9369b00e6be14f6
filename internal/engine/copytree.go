package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// CopyTree copies the files and folders below from into the folder to, owned as
// that is. Nobody writes to them meanwhile; links are refused, and nothing outside
// of the two folders is reached. Where the file system can, files share their blocks
// until one of them is written to.
func CopyTree(ctx context.Context, from, to string) error {
	none := func(string, fs.DirEntry) bool { return false }
	return copyTree(ctx, from, to, none, false)
}

// CopyLiveTree is CopyTree while somebody writes to the files: each is copied as it
// is when its turn comes, those that go meanwhile are left out, and so is what isn't
// a file or a folder, and what skip reports true for, by its path below from.
func CopyLiveTree(ctx context.Context, from, to string, skip func(name string, d fs.DirEntry) bool) error {
	return copyTree(ctx, from, to, skip, true)
}

func copyTree(ctx context.Context, from, to string, skip func(name string, d fs.DirEntry) bool, live bool) error {
	return between(from, to, func(source *os.Root, target *tree) error {
		return fs.WalkDir(source.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if live && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err := errors.Join(err, ctx.Err()); err != nil || name == "." {
				return err
			}
			switch {
			case skip(name, d) && d.IsDir():
				return fs.SkipDir
			case skip(name, d):
				return nil
			case d.IsDir():
				return target.folder(name)
			case d.Type().IsRegular():
				return target.copy(source, name, live)
			case live:
				return nil
			}
			return fmt.Errorf("%s is neither file nor folder", name)
		})
	})
}

// CopyFiles copies files by their paths below from, to the same below the folder to.
// The folders that they are in are there.
func CopyFiles(from, to string, names []string) error {
	return between(from, to, func(source *os.Root, target *tree) error {
		for _, name := range names {
			if err := target.copy(source, name, false); err != nil {
				return err
			}
		}
		return nil
	})
}

// between opens two folders for something to be copied.
func between(from, to string, do func(source *os.Root, target *tree) error) error {
	source, err := os.OpenRoot(from)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer source.Close()
	target, err := newTree(to)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer target.root.Close()
	if err := do(source, target); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return nil
}

// copy takes a file of another folder, if it's still there.
func (t *tree) copy(source *os.Root, name string, mayBeGone bool) error {
	in, err := source.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if mayBeGone && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	return t.file(name, in)
}

// WriteFiles writes files by their paths below dir, owned as that is.
func WriteFiles(dir string, files map[string][]byte) error {
	t, err := newTree(dir)
	if err != nil {
		return fmt.Errorf("write files: %w", err)
	}
	defer t.root.Close()
	for name, content := range files {
		if folder := path.Dir(name); folder != "." {
			if err := t.folder(folder); err != nil {
				return fmt.Errorf("write files: %w", err)
			}
		}
		if err := t.file(name, bytes.NewReader(content)); err != nil {
			return fmt.Errorf("write files: %w", err)
		}
	}
	return nil
}

// fill writes the content. What is a file is copied within the kernel, or not at all.
func (t *tree) fill(f *os.File, content io.Reader) error {
	in, ok := content.(*os.File)
	if !ok {
		if t.buffer == nil {
			t.buffer = make([]byte, bufferSize)
		}
		_, err := io.CopyBuffer(struct{ io.Writer }{f}, content, t.buffer) // a file would take a buffer of its own
		return err
	}
	if unix.IoctlFileClone(int(f.Fd()), int(in.Fd())) == nil {
		return nil
	}
	for at := int64(0); ; at += writtenBack {
		n, err := io.CopyN(f, in, writtenBack)
		if n == writtenBack {
			writeBack(f, at)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// writtenBack is how much of a copied file, in bytes, may wait to be written to the
// disk, twice: a server's fsync meanwhile would wait for all of it.
const writtenBack = 8 << 20

// writeBack begins to write the part of the file at the offset to the disk, and
// waits for the one before it. It's only about who waits: errors show when all is synced.
func writeBack(f *os.File, at int64) {
	_ = unix.SyncFileRange(int(f.Fd()), at, writtenBack, unix.SYNC_FILE_RANGE_WRITE)
	if at > 0 {
		_ = unix.SyncFileRange(int(f.Fd()), at-writtenBack, writtenBack, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	}
}
