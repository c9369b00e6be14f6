package operator

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"steward/internal/archive"
	"steward/internal/datadir"
	"steward/internal/durable"
	"steward/internal/engine"
	"steward/internal/platform"
)

// Export writes a backup to a file as a tar archive that needs no steward to be
// restored; "-" is out. "" names the file after the backup. Nothing is left of
// one that fails, and the file's name is returned.
func (r *BackupReader) Export(ctx context.Context, database, name, file string, out io.Writer, progress func(done, of int64)) (string, error) {
	id, label, err := r.database(ctx, database)
	if err != nil {
		return "", err
	}
	m, err := r.backup(ctx, id, name)
	if err != nil {
		return "", err
	}
	if file == "" {
		file = fmt.Sprintf("database-%d-backup-%d.tar", m.Cluster, m.Backup)
	}
	write := func(w io.Writer) error { return r.export(ctx, m, label, w, progress) }
	if file != "-" {
		return file, writeWhole(file, write)
	}
	// What has gone out can't be taken back: the object is read twice.
	if _, err := r.archive.Verify(ctx, m.Cluster, m.Backup); err != nil {
		return file, err
	}
	return file, write(out)
}

// writeWhole makes a file that is either whole or isn't there, and replaces none.
func writeWhole(file string, write func(io.Writer) error) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already", file)
	}
	return durable.Write(file, func(f *os.File) error { return write(f) })
}

// export streams a backup out of the bucket into a tar archive. Its end is
// written only when all was what the manifest promises.
func (r *BackupReader) export(ctx context.Context, m archive.Manifest, label string, out io.Writer, progress func(done, of int64)) error {
	exporter, c, err := r.copied(ctx, m)
	if err != nil {
		return err
	}
	key, err := r.secret(ctx, m.Cluster, platform.BackupKey)
	if err != nil {
		return fmt.Errorf("backup key: %w", err)
	}
	_, content, err := r.archive.Get(ctx, m.Cluster, m.Backup, key)
	if err != nil {
		return err
	}
	defer content.Close()
	in := &observed{ctx: ctx, r: content, tell: func(done int64) { progress(done, m.Bytes) }}
	c.Keyring = make([]byte, m.Copy.KeyringBytes)
	if _, err := io.ReadFull(in, c.Keyring); err != nil {
		return fmt.Errorf("read the keyring: %w", err)
	}
	w := tar.NewWriter(out)
	if err := engine.AddFile(w, c, "README.txt", []byte(readme(m, label, exporter.Instructions(c)))); err != nil {
		return err
	}
	if err := exporter.Export(c, in, w); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, in); err != nil { // the end is where the checksum is compared
		return err
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("end the archive: %w", err)
	}
	return nil
}

// copied is what the engine has to know of a backup, and the engine.
func (r *BackupReader) copied(ctx context.Context, m archive.Manifest) (engine.Exporter, engine.Copied, error) {
	flavour, _, _ := strings.Cut(m.Copy.Installation, "-")
	c := engine.Copied{
		Flavour: engine.Flavour(flavour), Series: m.Series, Version: m.Copy.ServerVersion,
		Bytes: m.Bytes - int64(m.Copy.KeyringBytes), Taken: m.Created.UTC(), Encrypted: m.Encrypted,
	}
	exporter, ok := datadir.Engines(slog.New(slog.DiscardHandler))[m.Engine]
	if !ok || m.Copy.KeyringBytes < 0 || m.Copy.KeyringBytes > 1<<20 {
		return nil, c, fmt.Errorf("this steward can't export backups of %s", m.Copy.Installation)
	}
	if !c.Encrypted {
		return exporter, c, nil
	}
	var err error
	if c.AtRestKey, err = r.secret(ctx, m.Cluster, platform.AtRestKey); err != nil {
		return nil, c, fmt.Errorf("at-rest key: %w", err)
	}
	return exporter, c, nil
}

func readme(m archive.Manifest, label, instructions string) string {
	secret := ""
	if m.Encrypted {
		secret = "It was encrypted at rest; what opens it is in this archive: keep that from others.\n"
	}
	return fmt.Sprintf(`Backup %s of the database %s
====================================================================

server   %s %s (%s)
taken    %s
%s
Become the user who is to run the server, never root. Unpack the archive in an empty
folder, and go there. Then type the indented lines.

%s`, m.Label, label, m.Engine, m.Copy.ServerVersion, m.Copy.Installation, m.Created.UTC().Format(time.RFC3339), secret, instructions)
}

// observed tells how far reading is, and ends with its context.
type observed struct {
	ctx  context.Context
	r    io.Reader
	done int64
	tell func(done int64)
}

func (o *observed) Read(p []byte) (int, error) {
	if err := o.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := o.r.Read(p)
	o.done += int64(n)
	o.tell(o.done)
	return n, err
}
