package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"steward/internal/durable"
	"steward/internal/engine"
)

// Backup is a base backup with its WAL, as a tar archive. The server verifies
// the checksum of every page that it sends, and a damaged one is an error: what
// comes of it would look like a good backup.
func (Driver) Backup(ctx context.Context, n engine.Node, w io.Writer, _ engine.Piper) error {
	b, err := startBackupStream(ctx, n, true)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer b.close(ctx)
	out := engine.NewArchiveWriter(w)
	if err := b.writeTo(ctx, out); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := b.finish(ctx); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := out.End(); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}

// writeTo passes the server's messages on as they come, and ends the archive
// where the server leaves that to us.
func (b *backupStream) writeTo(ctx context.Context, w io.Writer) error {
	for !b.done {
		if err := b.more(ctx); err != nil {
			return err
		}
		if _, err := w.Write(b.rest); err != nil {
			return fmt.Errorf("pass the archive on: %w", err)
		}
		b.rest = nil
	}
	if b.framed {
		return nil
	}
	if _, err := w.Write(make([]byte, 2*512)); err != nil {
		return fmt.Errorf("pass the archive on: %w", err)
	}
	return nil
}

// Unpack makes the copy a cluster of its own, with a system identifier of its
// own. The server replays the copy's WAL when it starts.
//
// A new timeline would be PostgreSQL's way to part a restored cluster from what
// the old one wrote later. But then only the numbers of timelines would tell the
// two apart, and the old cluster may have gone to the same one by a failover: a
// node forgotten in a restore in place could stream from the restored primary
// as if nothing had been, and its data would be neither's. By the identifier
// every server and tool refuses. All replicas have to be copied anew either way,
// and what is copied later shares the new identifier.
func (Driver) Unpack(_ context.Context, _ engine.Node, r io.Reader, dir string, _ engine.Piper) error {
	if err := unpack(r, dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	if err := regenerateIdentifier(dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	if err := durable.SyncFileSystem(dir); err != nil {
		return fmt.Errorf("unpack backup: %w", err)
	}
	return nil
}

// regenerateIdentifier changes the identifier in the WAL, too, which stays valid: the
// checksums in it don't cover the head of a page, where the identifier is.
func regenerateIdentifier(dir string) error {
	control, err := readControl(controlPath(dir))
	if err != nil {
		return err
	}
	return freshIdentity().put(dir, control)
}

// leftovers are what a replica, or a server that runs, has in its folder.
var leftovers = []string{
	standbySignal, recoverySignal, "postmaster.pid", "postmaster.opts",
	serverConf, accessConf, identConf, "backup_manifest",
}

func unpack(r io.Reader, dir string) error {
	archive := engine.NewArchiveReader(r)
	if err := engine.Untar(archive, dir); err != nil {
		return err
	}
	if err := archive.Finish(); err != nil {
		return err
	}
	for _, name := range []string{"backup_label", Driver{}.ControlFile()} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("the archive is no backup: %w", err)
		}
	}
	return remove(dir, leftovers...)
}

func remove(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
