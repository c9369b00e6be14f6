// Package archive exchanges archived files with servers: it uploads what they put into
// an archive directory, and brings what they ask for in a restore directory.
package archive

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

// RestoreDirectory is a folder where a server that recovers asks for archived files, one
// at a time: it holds no more than the server is about to read.
type RestoreDirectory struct {
	Path string
	// User is who the files are given to when steward is root.
	User int
	// Furthest is the furthest of all files that were there, Beyond compares two.
	Furthest string
	Beyond   func(a, b string) bool
	// Fetch writes an archived file to out; false when there is none such.
	Fetch func(ctx context.Context, name string, out io.Writer) (bool, error)
}

// fetchTries is how often a file is read from an archive that doesn't answer.
const fetchTries = 5

// Serve answers until ctx ends; an error is for good.
func (rd *RestoreDirectory) Serve(ctx context.Context) error {
	root, err := os.OpenRoot(rd.Path)
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

func (rd *RestoreDirectory) answer(ctx context.Context, root *os.Root, name string) error {
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
	if there && rd.Beyond(name, rd.Furthest) {
		rd.Furthest = name
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
func (rd *RestoreDirectory) put(ctx context.Context, root *os.Root, name string) (bool, error) {
	part := name + ".part"
	if err := ignoreMissing(root.Remove(part)); err != nil {
		return false, err
	}
	f, err := root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false, err
	}
	there, err := rd.Fetch(ctx, name, f)
	if err == nil && there && os.Geteuid() == 0 {
		err = f.Chown(rd.User, rd.User)
	}
	if err := errors.Join(err, f.Close()); err != nil || !there {
		return false, errors.Join(err, root.Remove(part))
	}
	return true, nil
}
