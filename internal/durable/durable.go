// Package durable writes files whole or not at all, and brings them to the disk.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WriteFile replaces a file, with mode 0600. When it returns, the new content
// survives a power failure; after a crash in between, the file is the old one.
func WriteFile(path string, content []byte) error {
	return Write(path, func(f *os.File) error {
		_, err := f.Write(content)
		return err
	})
}

// Write is WriteFile with content that write puts into a temporary file beside path.
func Write(path string, write func(f *os.File) error) error {
	return place(path, write, os.Rename)
}

// WriteNew is Write that replaces no file: the error is fs.ErrExist when there is one.
func WriteNew(path string, write func(f *os.File) error) error {
	return place(path, write, os.Link)
}

func place(path string, write func(f *os.File) error, into func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer os.Remove(f.Name())
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := into(f.Name(), path); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return Sync(filepath.Dir(path))
}

// Sync waits until a file's content, or a folder's entries, are on the disk.
func Sync(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// SyncFileSystem waits until everything written to the file system that dir is in is
// on the disk: much cheaper than syncing a thousand files one by one.
func SyncFileSystem(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", dir, err)
	}
	return nil
}
