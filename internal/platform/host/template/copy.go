package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// copyTree copies a folder with its modes and links. Where the file system can,
// files share their blocks until one of them is written to.
func copyTree(ctx context.Context, from, to string) error {
	folder, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, folder.Mode().Perm()); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := errors.Join(ctx.Err(), copyEntry(ctx, from+"/"+e.Name(), to+"/"+e.Name(), e)); err != nil {
			return err
		}
	}
	return nil
}

func copyEntry(ctx context.Context, from, to string, e fs.DirEntry) error {
	switch {
	case e.IsDir():
		return copyTree(ctx, from, to)
	case e.Type()&fs.ModeSymlink != 0:
		link, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return os.Symlink(link, to)
	case e.Type().IsRegular():
		info, err := e.Info()
		if err != nil {
			return err
		}
		return copyFile(from, to, info)
	default:
		return nil // a socket has no business in a template
	}
}

func copyFile(from, to string, info fs.FileInfo) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	// Hundreds of files are empty: of each, [io.Copy] would set a buffer aside to see that nothing comes.
	if info.Size() > 0 && unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil {
		_, err = io.Copy(out, in) // within the kernel
	}
	return errors.Join(err, out.Close())
}

// giveTree makes everything below path the user's. Nothing of that user may
// run meanwhile. user 0 stands for steward's own: nothing to do.
func giveTree(path string, user int) error {
	if user == 0 {
		return nil
	}
	err := filepath.WalkDir(path, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, user, user)
	})
	if err != nil {
		return fmt.Errorf("give %s to user %d: %w", path, user, err)
	}
	return nil
}

// spreadFolder asks the file system to put the folders made in dir far from
// each other. On ext4 that is worth a factor of ten: it doesn't hand out an
// inode again for minutes after its file was deleted, and a create searches
// past all such in its neighbourhood. Other file systems refuse, which is fine.
func spreadFolder(dir string) {
	const topOfHierarchies = 0x00020000 // FS_TOPDIR_FL, chattr +T
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil && flags&topOfHierarchies == 0 {
		_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags|topOfHierarchies)
	}
}
