package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"steward/internal/engine"
	"steward/internal/wait"
)

// The suffixes of files in a restore directory: the server leaves NAME.want there and
// waits for NAME, or for NAME.none.
const (
	restoreWanted  = ".want"
	restoreMissing = ".none"
)

// restoreDirectory is a folder where a server that recovers asks for archived files, one
// at a time: it holds no more than the server is about to read.
type restoreDirectory struct {
	path string
	// furthest is the furthest of all files that were there.
	furthest string
	// fetch writes an archived file to out; false when there is none such.
	fetch func(ctx context.Context, name string, out io.Writer) (bool, error)
}

// serve answers until ctx ends; an error is for good.
func (rd *restoreDirectory) serve(ctx context.Context) error {
	root, err := os.OpenRoot(rd.path)
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		entries, err := fs.ReadDir(root.FS(), ".")
		if err != nil {
			return err
		}
		for _, e := range entries {
			name, asked := strings.CutSuffix(e.Name(), restoreWanted)
			if !asked {
				continue
			}
			if err := rd.answer(ctx, root, name); err != nil && ctx.Err() == nil {
				return fmt.Errorf("fetch %s: %w", name, err)
			}
		}
		if wait.Sleep(ctx, 10*time.Millisecond) != nil {
			return nil
		}
	}
}

func (rd *restoreDirectory) answer(ctx context.Context, root *os.Root, name string) error {
	var there bool
	err := engine.FetchPatiently(ctx, func() (err error) {
		there, err = rd.put(ctx, root, name)
		return err
	})
	if err != nil {
		return err
	}
	if there && beyond(name, rd.furthest) {
		rd.furthest = name
	}
	if err := ignoreMissing(root.Remove(name + restoreWanted)); err != nil {
		return err
	}
	if there {
		return root.Rename(name+".part", name)
	}
	f, err := root.OpenFile(name+restoreMissing, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// put reads a file into name.part.
func (rd *restoreDirectory) put(ctx context.Context, root *os.Root, name string) (bool, error) {
	part := name + ".part"
	if err := ignoreMissing(root.Remove(part)); err != nil {
		return false, err
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	there, err := rd.fetch(ctx, name, f)
	if err == nil && there {
		err = giveToOwner(root, f)
	}
	if err := errors.Join(err, f.Close()); err != nil || !there {
		return false, errors.Join(err, root.Remove(part))
	}
	return true, nil
}

// giveToOwner gives a file to the owner of the folder that it is in.
func giveToOwner(root *os.Root, f *os.File) error {
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	return giveTo(f, info.Sys().(*syscall.Stat_t))
}
