package engine

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// Tar writes all files and folders below dir, and the archive's end.
func Tar(ctx context.Context, w io.Writer, dir string) error {
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil || path == dir {
			return err
		}
		return tarOne(archive, dir, path, d)
	})
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

func tarOne(archive *tar.Writer, dir, path string, d fs.DirEntry) error {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	info, err := d.Info()
	if err != nil {
		return err
	}
	if !d.IsDir() && !d.Type().IsRegular() {
		return fmt.Errorf("%s is neither file nor folder", name)
	}
	header, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	header.Name = name
	if err := archive.WriteHeader(header); err != nil || d.IsDir() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(archive, f)
	return err
}

// tree is a folder that files are put in, owned as it is itself.
type tree struct {
	root  *os.Root
	owner *syscall.Stat_t
	// buffer is what content goes through: a data folder has a thousand files, most of them small.
	buffer []byte
}

const bufferSize = 64 << 10

func newTree(dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &tree{root: root, owner: info.Sys().(*syscall.Stat_t)}, nil
}

// Untar unpacks files and folders, owned as dir is, and never outside of it. A
// data folder has nothing else, unless there are tablespaces.
func Untar(from io.Reader, dir string) error {
	t, err := newTree(dir)
	if err != nil {
		return err
	}
	defer t.root.Close()
	archive := tar.NewReader(from)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = t.folder(name)
		case tar.TypeReg:
			err = t.file(name, archive)
		default:
			err = fmt.Errorf("%s is neither file nor folder", h.Name)
		}
		if err != nil {
			return fmt.Errorf("unpack archive: %w", err)
		}
	}
}

func (t *tree) folder(name string) error {
	if err := t.root.Mkdir(name, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	if os.Geteuid() != 0 {
		return nil
	}
	return t.root.Lchown(name, int(t.owner.Uid), int(t.owner.Gid))
}

func (t *tree) file(name string, content io.Reader) error {
	f, err := t.root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if os.Geteuid() == 0 {
		if err := f.Chown(int(t.owner.Uid), int(t.owner.Gid)); err != nil {
			return err
		}
	}
	if err := t.fill(f, content); err != nil {
		return err
	}
	return f.Close()
}
