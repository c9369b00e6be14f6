package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"steward/internal/engine"
)

// restoreDir is a folder where a server that recovers asks for archived files, one
// at a time: it holds no more than the server is about to read.
type restoreDir struct {
	dir  string
	user int
	// furthest of all files that were there.
	furthest string
	beyond   func(a, b string) bool
	fetch    func(ctx context.Context, name string, out io.Writer) (bool, error)
}

// fetchTries is how often a file is read from an archive that doesn't answer.
const fetchTries = 5

// serve answers until ctx ends; an error is for good.
func (rd *restoreDir) serve(ctx context.Context) error {
	root, err := os.OpenRoot(rd.dir)
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
			name, asked := strings.CutSuffix(e.Name(), engine.RestoreWanted)
			if !asked {
				continue
			}
			if err := rd.answer(ctx, root, name); err != nil && ctx.Err() == nil {
				return fmt.Errorf("fetch %s: %w", name, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (rd *restoreDir) answer(ctx context.Context, root *os.Root, name string) error {
	var there bool
	err := errors.New("not tried")
	for try := 1; err != nil && try <= fetchTries; try++ {
		if there, err = rd.put(ctx, root, name); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try) * 200 * time.Millisecond):
		}
	}
	if err != nil {
		return err
	}
	if there && rd.beyond(name, rd.furthest) {
		rd.furthest = name
	}
	if err := ignoreMissing(root.Remove(name + engine.RestoreWanted)); err != nil {
		return err
	}
	if there {
		return root.Rename(name+".part", name)
	}
	f, err := root.OpenFile(name+engine.RestoreMissing, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// put reads a file into name.part.
func (rd *restoreDir) put(ctx context.Context, root *os.Root, name string) (bool, error) {
	part := name + ".part"
	if err := ignoreMissing(root.Remove(part)); err != nil {
		return false, err
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	there, err := rd.fetch(ctx, name, f)
	if err == nil && there && os.Geteuid() == 0 {
		err = f.Chown(rd.user, rd.user)
	}
	if err := errors.Join(err, f.Close()); err != nil || !there {
		return false, errors.Join(err, root.Remove(part))
	}
	return true, nil
}
