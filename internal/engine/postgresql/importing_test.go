package postgresql

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/engine"
	"steward/internal/testdir"
)

// fakeSource takes connections as a PostgreSQL does, and has answer deal with what it is asked.
func fakeSource(t *testing.T, answer func(b *pgproto3.Backend, query string) error) engine.Source {
	t.Helper()
	address := testdir.ServeLocally(t, func(conn net.Conn) { serveFake(conn, answer) })
	return engine.Source{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Username: "mover", Password: "secret", Received: &engine.Received{}, Most: 64 << 20, Silence: time.Minute,
	}
}

func serveFake(conn net.Conn, answer func(b *pgproto3.Backend, query string) error) {
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for b.Flush() == nil {
		message, err := b.Receive()
		if err != nil {
			return
		}
		if query, ok := message.(*pgproto3.Query); ok {
			if answer(b, query.String) != nil {
				return
			}
		}
	}
}

// rowsFor answers rows of one column, until most were sent, some hundred of them at a time.
func rowsFor(b *pgproto3.Backend, most int, value string) error {
	b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("x"), DataTypeOID: 25}}})
	for i := range most {
		b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(value)}})
		if i%256 != 0 {
			continue
		}
		if err := b.Flush(); err != nil {
			return err
		}
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	return nil
}

// TestHostileSources: a source that never ends, says nothing or says nonsense is given up with a reason, soon and without its answers piling up.
func TestHostileSources(t *testing.T) {
	t.Parallel()
	const forever = 1 << 40
	for name, c := range map[string]struct {
		answer func(b *pgproto3.Backend, query string) error
		change func(s *engine.Source)
		ask    func(ctx context.Context, s engine.Source) error
		want   string
	}{
		"endless answer": {
			answer: func(b *pgproto3.Backend, _ string) error { return rowsFor(b, forever, strings.Repeat("x", 8<<10)) },
			want:   "has no end",
		},
		"endless small rows": {
			answer: func(b *pgproto3.Backend, _ string) error { return rowsFor(b, forever, "") }, want: "has no end",
		},
		"endless rows of a table": {
			answer: func(b *pgproto3.Backend, _ string) error {
				b.Send(&pgproto3.CopyOutResponse{ColumnFormatCodes: []uint16{0}})
				for {
					b.Send(&pgproto3.CopyData{Data: []byte(strings.Repeat("x", 64<<10))})
					if err := b.Flush(); err != nil {
						return err
					}
				}
			},
			ask: func(ctx context.Context, s engine.Source) error {
				conn, err := atSource(ctx, s, "shop")
				if err != nil {
					return err
				}
				defer closeSoon(ctx, conn)
				_, err = conn.CopyTo(ctx, io.Discard, "COPY t TO STDOUT")
				return sourceFailed(s, err)
			},
			change: func(s *engine.Source) { s.Most = 8 << 20 },
			want:   "more than the database has room for",
		},
		"silence": {
			answer: func(b *pgproto3.Backend, _ string) error { _, err := b.Receive(); return err },
			change: func(s *engine.Source) { s.Silence = 50 * time.Millisecond },
			want:   "nothing for too long",
		},
		"nonsense": {
			answer: func(b *pgproto3.Backend, _ string) error { return rowsFor(b, 1, "'; DROP DATABASE x; --") },
			ask: func(ctx context.Context, s engine.Source) error {
				conn, err := atSource(ctx, s, "shop")
				if err != nil {
					return err
				}
				defer closeSoon(ctx, conn)
				_, err = takeSnapshot(ctx, s, conn)
				return err
			},
			want: "doesn't answer as a PostgreSQL",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			s := fakeSource(t, c.answer)
			if c.change != nil {
				c.change(&s)
			}
			ask := c.ask
			if ask == nil {
				ask = func(ctx context.Context, s engine.Source) error {
					conn, err := atSource(ctx, s, "shop")
					if err != nil {
						return err
					}
					defer closeSoon(ctx, conn)
					_, err = askSource(ctx, s, conn, "SELECT 1")
					return err
				}
			}
			err := ask(ctx, s)
			if theirs, ok := errors.AsType[*engine.SourceError](err); !ok || !strings.Contains(theirs.Reason, c.want) || ctx.Err() != nil {
				t.Errorf("it ended with %v; want a reason with %q", err, c.want)
			}
		})
	}
}

// TestSourceThatIsNone: what isn't a PostgreSQL is told so.
func TestSourceThatIsNone(t *testing.T) {
	t.Parallel()
	address := testdir.ServeLocally(t, func(conn net.Conn) { _, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) })
	s := engine.Source{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
		Username: "mover", Password: "secret", Received: &engine.Received{}, Most: 1 << 20, Silence: time.Second,
	}
	_, err := atSource(t.Context(), s, "shop")
	if theirs, ok := errors.AsType[*engine.SourceError](err); !ok || strings.Contains(theirs.Reason, "secret") {
		t.Errorf("it ended with %v", err)
	}
}
