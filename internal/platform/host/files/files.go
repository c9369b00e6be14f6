// Package files makes and measures files and folders with owners, and throws them away.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MakeFolder makes a folder in one of steward's own, with that mode and owner.
func MakeFolder(dir string, mode fs.FileMode, uid, gid int) error {
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make folder: %w", err)
	}
	if err := os.Chmod(dir, mode); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	if err := os.Lchown(dir, uid, gid); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	return nil
}

// Writer puts files with an owner into a folder, and never outside of it. Folders is the
// mode of folders on the way that are missing.
type Writer struct {
	Owner, Group  int
	Mode, Folders fs.FileMode
}

// Write writes the file rel below dir; once leaves one alone that is there.
func (w Writer) Write(dir, rel string, content []byte, once bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := w.makeParents(root, filepath.Dir(rel)); err != nil {
		return err
	}
	if once {
		if _, err := root.Lstat(rel); err == nil {
			return nil
		}
	}
	fresh := rel + ".new"
	if err := root.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := root.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, w.Mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(w.Mode)
	}
	if err == nil && os.Geteuid() == 0 {
		err = file.Chown(w.Owner, w.Group)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return root.Rename(fresh, rel)
}

func (w Writer) makeParents(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if err := w.makeParents(root, filepath.Dir(dir)); err != nil {
		return err
	}
	err := root.Mkdir(dir, w.Folders)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil && os.Geteuid() == 0 {
		err = root.Lchown(dir, w.Owner, w.Group)
	}
	return err
}

// Size is the disk that a folder's files take. Files may vanish meanwhile;
// those with several names count once.
func Size(dir string) int64 {
	const block = 512
	var size int64
	seen := map[uint64]bool{}
	// Errors are those of files that have just been removed.
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink > 1 && !e.IsDir() && seen[st.Ino] {
			return nil
		}
		if st.Nlink > 1 && !e.IsDir() {
			seen[st.Ino] = true
		}
		size += st.Blocks * block
		return nil
	})
	return size
}
