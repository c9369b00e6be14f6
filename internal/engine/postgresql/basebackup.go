package postgresql

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"steward/internal/engine"
)

// Seed is part of engine.Replicator: a base backup with the WAL it needs,
// unpacked.
func (d Driver) Seed(ctx context.Context, n engine.Node, dir string, _ engine.Runner) error {
	read, write := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := baseBackup(ctx, n, write)
		write.CloseWithError(err)
		sent <- err
	}()
	err := untar(read, dir)
	read.CloseWithError(err)
	if err := errors.Join(err, <-sent); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("seed: sync: %w", err)
	}
	return nil
}

// baseBackup writes the running server's data to w as a tar, WAL included.
func baseBackup(ctx context.Context, n engine.Node, w io.Writer) error {
	major, err := majorOf(n.Installation)
	if err != nil {
		return err
	}
	conn, err := connect(ctx, login{
		host: n.Run, port: n.Listen.Port(), user: adminRole, password: n.AdminPassword,
		parameters: map[string]string{"replication": "true", "application_name": "steward"},
	})
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { conn.Conn().Close() })
	defer stop()
	command := "BASE_BACKUP (LABEL 'steward', CHECKPOINT 'fast', WAL true, WAIT false, MANIFEST 'no')"
	if major < 15 {
		command = "BASE_BACKUP LABEL 'steward' FAST WAL NOWAIT MANIFEST 'no'"
	}
	conn.Frontend().SendQuery(&pgproto3.Query{String: command})
	if err := conn.Frontend().Flush(); err != nil {
		return fmt.Errorf("base backup: %w", err)
	}
	return receiveBackup(ctx, conn, w, major >= 15)
}

// receiveBackup reads the answer to BASE_BACKUP: rows with the start and the
// tablespaces, the archives as COPY, a row with the end. Since 15 each message
// of the copy begins with its kind.
func receiveBackup(ctx context.Context, conn *pgconn.PgConn, w io.Writer, kinds bool) error {
	results := 0
	for {
		message, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return fmt.Errorf("base backup: %w", err)
		}
		switch m := message.(type) {
		case *pgproto3.ErrorResponse:
			return fmt.Errorf("base backup: %w", pgconn.ErrorResponseToPgError(m))
		case *pgproto3.RowDescription:
			results++
		case *pgproto3.DataRow:
			if results == 2 && len(m.Values[0]) > 0 {
				return errors.New("base backup: the database has tablespaces outside its folder")
			}
		case *pgproto3.CopyData:
			data := m.Data
			if kinds {
				if len(data) == 0 || data[0] != 'd' {
					continue
				}
				data = data[1:]
			}
			if _, err := w.Write(data); err != nil {
				return fmt.Errorf("base backup: %w", err)
			}
		case *pgproto3.ReadyForQuery:
			return nil
		}
	}
}

// untar unpacks into a folder, for its owner, and never outside of it.
func untar(r io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // what the server pads with
			return err
		}
		if err != nil {
			return fmt.Errorf("read base backup: %w", err)
		}
		if err := unpack(root, dir, h, archive); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func unpack(root *os.Root, dir string, h *tar.Header, content io.Reader) error {
	name := filepath.Clean(h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		if err := root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, content)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	default:
		return fmt.Errorf("kind %q has no business in a data folder", h.Typeflag)
	}
	if name == "." {
		return nil
	}
	return giveLike(dir, filepath.Join(dir, name))
}
