package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// clockStep is how much later than a change a file may still have the same time of change.
const clockStep = 2 * time.Second

// RefreshTree makes the files and folders below the folder to what they are below from, owned as to is, and leaves alone what an earlier
// call copied and hasn't changed since: that is known by size and time of files that steady reports true for, by their paths, all others
// are copied again. live says that somebody writes to them meanwhile, as with CopyLiveTree; then it has to be called again.
func RefreshTree(ctx context.Context, from, to string, steady func(name string) bool, live bool) error {
	there := map[string]bool{}
	err := between(from, to, func(source *os.Root, target *tree) error {
		return fs.WalkDir(source.FS(), ".", func(name string, d fs.DirEntry, err error) error {
			if live && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err := errors.Join(err, ctx.Err()); err != nil || name == "." {
				return err
			}
			there[name] = true
			switch {
			case d.IsDir():
				return target.folder(name)
			case d.Type().IsRegular():
				return target.refresh(source, name, steady(name), live)
			case live:
				return nil
			}
			return fmt.Errorf("%s is neither file nor folder", name)
		})
	})
	if err != nil {
		return err
	}
	return removeOthers(to, there)
}

// refresh copies a file unless that was done since it changed. A file that was linked elsewhere is replaced, not written to.
func (t *tree) refresh(source *os.Root, name string, steady, live bool) error {
	is, err := source.Lstat(name)
	if live && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	had, err := t.root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		if steady && had.Size() == is.Size() && had.ModTime().Equal(is.ModTime()) {
			return nil
		}
		if err := t.root.Remove(name); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := t.copy(source, name, live); err != nil {
		return err
	}
	// A change while it was copied, or just before, may not show in its time: then it is copied again.
	noted := is.ModTime()
	if live && began.Sub(noted) < clockStep {
		noted = time.Unix(0, 0)
	}
	err = t.root.Chtimes(name, noted, noted)
	if live && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeOthers removes what isn't among those that are there.
func removeOthers(dir string, there map[string]bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	defer root.Close()
	var gone []string
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." || there[name] {
			return err
		}
		gone = append(gone, name)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	for _, name := range gone {
		err = errors.Join(err, root.RemoveAll(name))
	}
	if err != nil {
		return fmt.Errorf("copy: remove what is gone: %w", err)
	}
	return nil
}
