package mysql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"steward/internal/durable"
	"steward/internal/engine"
)

// workDirPrefix begins the names of backups' folders in Node.Tmp.
const workDirPrefix = ".steward-backup-"

// Backup implements engine.Archiver. MariaDB's comes as a stream of its own
// program; MySQL, which has no such thing, clones itself to the local disk
// first, which therefore has to have room for all the data once more.
func (d *Driver) Backup(ctx context.Context, n engine.Node, w io.Writer, run engine.Piper) error {
	if err := d.backup(ctx, n, w, run); err != nil {
		return fmt.Errorf("back up node %d: %w", n.Ordinal, err)
	}
	return nil
}

func (d *Driver) backup(ctx context.Context, n engine.Node, w io.Writer, run engine.Piper) (err error) {
	if err := errors.Join(ctx.Err(), d.CheckNames(n)); err != nil {
		return err
	}
	work, release, err := makeWorkDir(n.Tmp)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	archive := engine.NewArchiveWriter(w)
	if err := flavourOf(n.Installation.Flavour).backup(ctx, d, n, archive, work, run); err != nil {
		return err
	}
	return archive.End()
}

// makeWorkDir makes a folder that belongs to the owner of tmp. The lock on tmp
// lasts as long as our process at most: who holds it may remove what a backup
// left that was killed.
func makeWorkDir(tmp string) (work string, release func() error, err error) {
	lock, err := os.Open(tmp)
	if err != nil {
		return "", nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return "", nil, errors.Join(fmt.Errorf("another backup of this node is being made: %w", err), lock.Close())
	}
	if err := removeSpools(tmp); err != nil {
		return "", nil, errors.Join(err, lock.Close())
	}
	release = func() error { return errors.Join(removeSpools(tmp), lock.Close()) }
	work, err = os.MkdirTemp(tmp, workDirPrefix)
	if err == nil {
		err = giveLike(tmp, work)
	}
	if err != nil {
		return "", nil, errors.Join(err, release())
	}
	return work, release, nil
}

func removeSpools(tmp string) error {
	left, err := filepath.Glob(filepath.Join(tmp, workDirPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove a backup's files: %w", err)
		}
	}
	return nil
}

// giveLike gives the path to the owner of the folder dir. Nobody but root can, or needs to.
func giveLike(dir, path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return os.Lchown(path, int(owner.Uid), int(owner.Gid))
}

// Unpack implements engine.Archiver. What comes of it is a history of its own:
// a replica of the server that was backed up can't follow.
func (d *Driver) Unpack(ctx context.Context, n engine.Node, r io.Reader, dir string, run engine.Piper) error {
	archive := engine.NewArchiveReader(r)
	if err := flavourOf(n.Installation.Flavour).unpack(ctx, n, archive, dir, run); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	if err := d.RegenerateIdentity(ctx, dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	return nil
}

// running runs a program for a backup and makes its last words the error.
func running(ctx context.Context, run engine.Piper, dir string, argv []string, in io.Reader, out io.Writer) error {
	said, err := run(ctx, dir, engine.Process{Argv: argv, Env: environment}, in, out)
	if err == nil {
		return nil
	}
	const enough = 1000
	text := strings.TrimSpace(string(said[max(0, len(said)-enough):]))
	return fmt.Errorf("%w: %s", err, text)
}

// options are the settings as they stand on a command line.
func options(settings []setting) []string {
	var args []string
	for _, s := range settings {
		args = append(args, "--"+strings.ReplaceAll(s.name, "_", "-")+"="+s.text())
	}
	return args
}
