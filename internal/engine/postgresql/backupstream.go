package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/engine"
)

// backupStream is a running physical copy of a server: a tar archive of its data
// folder to read from, without its end marker. With the WAL between start and
// end, part of the archive, it becomes consistent.
type backupStream struct {
	start, end lsn
	conn       *pgconn.PgConn
	// framed reports whether each message begins with a letter that says what it is,
	// as from 15 on.
	framed   bool
	archives int
	rest     []byte
	done     bool
	// warnings are the first of them: which pages are damaged.
	warnings []string
}

// startBackupStream asks the server for one. The caller reads to the end,
// then finishes, and closes in any case. One that nobody keeps has an empty
// archive from 15 on: the server reads and verifies everything, and sends nothing.
func startBackupStream(ctx context.Context, n engine.Node, kept bool) (*backupStream, error) {
	major, err := majorOf(n.Installation)
	if err != nil {
		return nil, err
	}
	conn, err := connectAsOurs(ctx, n, login{
		password: n.AdminPassword, database: adminDatabase,
		// "database" rather than "true": then the rule that lets us into every
		// database counts, and a server of one node needs none for replication.
		parameters: map[string]string{"replication": "database", "application_name": "steward"},
	})
	if err != nil {
		return nil, err
	}
	b := &backupStream{conn: conn, framed: major >= 15}
	if err := b.keepWAL(ctx); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	var command string
	switch {
	case !b.framed:
		command = "BASE_BACKUP LABEL 'steward' FAST WAL NOWAIT MANIFEST 'no'"
	case kept:
		command = "BASE_BACKUP (LABEL 'steward', CHECKPOINT 'fast', WAL true, WAIT false, MANIFEST 'no')"
	default:
		command = "BASE_BACKUP (LABEL 'steward', CHECKPOINT 'fast', WAL true, WAIT false, MANIFEST 'no', TARGET 'blackhole')"
	}
	conn.Frontend().SendQuery(&pgproto3.Query{String: command})
	if err := conn.Frontend().Flush(); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	if err := b.begin(ctx); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

// keepWAL has the server keep the WAL from now on, which it sends last, until
// the connection ends: a checkpoint would remove it from under a long backup.
// The slot's bound on disk space holds all the same.
func (b *backupStream) keepWAL(ctx context.Context) error {
	slot := fmt.Sprintf("CREATE_REPLICATION_SLOT steward_backup_%d TEMPORARY PHYSICAL RESERVE_WAL", b.conn.PID())
	if _, err := b.conn.Exec(ctx, slot).ReadAll(); err != nil {
		return fmt.Errorf("keep WAL: %w", classify(err))
	}
	return nil
}

// begin reads where the backup starts, the list of tablespaces, and on up to
// the archive.
func (b *backupStream) begin(ctx context.Context) error {
	results, tablespaces := 0, 0
	for {
		m, err := b.receive(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.RowDescription:
			results++
		case *pgproto3.DataRow:
			if results > 1 {
				tablespaces++
			} else if b.start, err = firstLSN(m); err != nil {
				return err
			}
		case *pgproto3.CopyOutResponse:
			// The data folder itself is listed as one of them.
			if tablespaces != 1 {
				return errors.New("the server has tablespaces outside its data folder, which can't be copied")
			}
			return nil
		case *pgproto3.ReadyForQuery:
			return errors.New("the server sent no archive")
		}
	}
}

func firstLSN(row *pgproto3.DataRow) (lsn, error) {
	if len(row.Values) == 0 {
		return 0, errors.New("a row without a place in the WAL")
	}
	return parseLSN(string(row.Values[0]))
}

// receive turns the server's errors into Go's.
func (b *backupStream) receive(ctx context.Context) (pgproto3.BackendMessage, error) {
	m, err := b.conn.ReceiveMessage(ctx)
	if err != nil {
		return nil, classify(err)
	}
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return nil, classify(pgconn.ErrorResponseToPgError(m))
	case *pgproto3.NoticeResponse:
		if len(b.warnings) < mostDamage {
			b.warnings = append(b.warnings, m.Message)
		}
	}
	return m, nil
}

// reader reads the archive. It must not outlive the context.
func (b *backupStream) reader(ctx context.Context) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		for len(b.rest) == 0 {
			if b.done {
				return 0, io.EOF
			}
			if err := b.more(ctx); err != nil {
				return 0, err
			}
		}
		n := copy(p, b.rest)
		b.rest = b.rest[n:]
		return n, nil
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// more takes one message of the copy. What it holds stays valid until the next.
func (b *backupStream) more(ctx context.Context) error {
	m, err := b.receive(ctx)
	if err != nil {
		return err
	}
	switch m := m.(type) {
	case *pgproto3.CopyData:
		return b.take(m.Data)
	case *pgproto3.CopyDone:
		b.done = true
	}
	return nil
}

func (b *backupStream) take(data []byte) error {
	if !b.framed {
		b.rest = data
		return nil
	}
	if len(data) == 0 {
		return errors.New("an empty message in the copy")
	}
	switch data[0] {
	case 'n':
		if b.archives++; b.archives > 1 {
			return errors.New("the server sends a second archive")
		}
	case 'd':
		b.rest = data[1:]
	}
	return nil
}

// finish reads what follows the archive: where the backup ends, and whether the
// server calls it good.
func (b *backupStream) finish(ctx context.Context) error {
	if _, err := io.Copy(io.Discard, b.reader(ctx)); err != nil {
		return err
	}
	for {
		m, err := b.receive(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.DataRow:
			if b.end, err = firstLSN(m); err != nil {
				return err
			}
		case *pgproto3.ReadyForQuery:
			if b.end == 0 {
				return errors.New("the server didn't say where the backup ends")
			}
			return nil
		}
	}
}

// close ends a backup that isn't finished, too.
func (b *backupStream) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
	defer cancel()
	return b.conn.Close(ctx)
}
