package testdir

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Walk visits what is below a folder in which a server may be at work: what is gone before it was looked at, or while visit looks, is left out.
func Walk(dir string, visit func(path string, entry fs.DirEntry) error) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = visit(path, entry)
		}
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}
