package postgresql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/engine"
)

// mostMessage bounds one message of a stream, which is held in memory: a row, in the source's words.
const mostMessage = 64 << 20

// errLarge is a message beyond it.
var errLarge = &engine.SourceError{Reason: fmt.Sprintf("It was given up: a row that the source sends is larger than %d MB.", mostMessage>>20)}

// sizeGuard reads what a server sends and refuses a message that is too large before anything is made for it.
type sizeGuard struct {
	io.Reader
	// head is what is known of the next message's beginning, left how much of the current one is to come.
	head []byte
	left int
}

// Read implements io.Reader.
func (g *sizeGuard) Read(p []byte) (int, error) {
	n, err := g.Reader.Read(p)
	const header = 5 // a letter, and the length with itself
	for rest := p[:n]; len(rest) > 0; {
		if g.left > 0 {
			skipped := min(g.left, len(rest))
			g.left -= skipped
			rest = rest[skipped:]
			continue
		}
		taken := min(header-len(g.head), len(rest))
		g.head = append(g.head, rest[:taken]...)
		rest = rest[taken:]
		if len(g.head) == header {
			if length := binary.BigEndian.Uint32(g.head[1:]); length > mostMessage {
				return 0, errLarge
			} else if length > 4 {
				g.left = int(length) - 4
			}
			g.head = g.head[:0]
		}
	}
	return n, err
}

// streamed is something that a source has sent: a change, or, without one, that everything up to a place was sent.
type streamed struct {
	message []byte
	upTo    lsn
}

// stream receives what a slot has to send. It answers the source while what it has received is applied.
type stream struct {
	s    engine.Source
	conn *pgconn.PgConn
	// out is what has come, held how many bytes of it wait, and room tells that there are fewer of them.
	out  chan streamed
	held atomic.Int64
	room chan struct{}
	// end is the furthest that the source is known to be, confirmed what it needs to keep no longer.
	end, confirmed atomic.Uint64
	// hurry reports whether somebody waits for the source to say how far it is.
	hurry atomic.Bool
	// sent is how much has come since the last commit.
	sent int64
}

// mostWaiting and mostHeld are how many messages, and bytes of them, are received ahead.
const mostWaiting, mostHeld = 512, 4 << 20

const (
	// answerEvery is how often a source is told how far we are, and asked how far it is; hurriedly is the same while somebody waits.
	answerEvery = time.Second
	hurriedly   = 50 * time.Millisecond
)

// startStream begins to receive what a slot has from a place on.
func startStream(ctx context.Context, s engine.Source, database, slot string, from lsn) (*stream, error) {
	unbounded := s // run sees to how long it is silent, and how much it sends without a commit
	unbounded.Received, unbounded.Most, unbounded.Silence = &engine.Received{}, math.MaxInt64, 0
	conn, err := atSource(ctx, unbounded, database, replicating)
	if err != nil {
		return nil, err
	}
	f := &stream{s: s, conn: conn, out: make(chan streamed, mostWaiting), room: make(chan struct{}, 1)}
	f.confirmed.Store(uint64(from))
	command := fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names %s)", quoteName(slot), from, quoteText(quoteName(slot)))
	conn.Frontend().SendQuery(&pgproto3.Query{String: command})
	if err := conn.Frontend().Flush(); err != nil {
		closeSoon(ctx, conn)
		return nil, fmt.Errorf("the source: %w", err)
	}
	if err := f.begin(ctx); err != nil {
		closeSoon(ctx, conn)
		return nil, sourceFailed(s, err)
	}
	return f, nil
}

// waitForStream bounds how long a source takes to begin.
const waitForStream = time.Minute

func (f *stream) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitForStream)
	defer cancel()
	for {
		m, err := f.conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := m.(type) {
		case *pgproto3.CopyBothResponse:
			return nil
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		default:
			return errNotPostgreSQL
		}
	}
}

// run passes on what comes, until ctx or the stream ends.
func (f *stream) run(ctx context.Context) error {
	defer close(f.out)
	heard, answered := time.Now(), time.Time{}
	for {
		every := answerEvery
		if f.hurry.Load() {
			every = hurriedly
		}
		if time.Since(answered) >= every {
			if err := f.answer(); err != nil {
				return fmt.Errorf("the source: %w", err)
			}
			answered = time.Now()
		}
		m, err := f.receive(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && pgconn.Timeout(err) && time.Since(heard) > f.s.Silence:
			return &engine.SourceError{Reason: "It was given up: " + engine.ErrSilent.Error() + "."}
		case err != nil && pgconn.Timeout(err):
			continue
		case err != nil:
			return sourceFailed(f.s, err)
		}
		heard = time.Now()
		if err := f.pass(ctx, m); err != nil {
			return err
		}
	}
}

// receive waits a moment for the next message.
func (f *stream) receive(ctx context.Context) (pgproto3.BackendMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, hurriedly)
	defer cancel()
	return f.conn.ReceiveMessage(ctx)
}

// pass takes one message.
func (f *stream) pass(ctx context.Context, m pgproto3.BackendMessage) error {
	switch m := m.(type) {
	case *pgproto3.CopyData:
		return f.data(ctx, m.Data)
	case *pgproto3.ErrorResponse:
		return sourceFailed(f.s, pgconn.ErrorResponseToPgError(m))
	case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		return nil
	case *pgproto3.CopyDone:
		return errors.New("the source has ended the stream")
	}
	return errNotPostgreSQL
}

// data takes a piece of the stream: a change, or how far the source is.
func (f *stream) data(ctx context.Context, data []byte) error {
	const keepalive, change = 'k', 'w'
	s := &scanner{left: data}
	switch s.byte() {
	case keepalive:
		upTo := s.place()
		if s.bad {
			return &engine.SourceError{Reason: errMangled.Error() + "."}
		}
		f.know(upTo)
		return f.hand(ctx, streamed{upTo: upTo})
	case change:
		s.place()
		f.know(s.place())
		s.place() // its clock
		if s.bad || len(s.left) == 0 {
			return &engine.SourceError{Reason: errMangled.Error() + "."}
		}
		if f.sent += int64(len(data)); s.left[0] == changeCommit {
			f.sent = 0
		}
		if f.sent > f.s.Most {
			return &engine.SourceError{Reason: "It was given up: " + engine.ErrEndless.Error() + "."}
		}
		return f.hand(ctx, streamed{message: bytes.Clone(s.left)})
	}
	return &engine.SourceError{Reason: errMangled.Error() + "."}
}

func (f *stream) know(end lsn) {
	if uint64(end) > f.end.Load() {
		f.end.Store(uint64(end))
	}
}

// hand passes one on, and answers the source while that takes.
func (f *stream) hand(ctx context.Context, s streamed) error {
	tick := time.NewTicker(answerEvery)
	defer tick.Stop()
	for {
		out := f.out
		if f.held.Load() > mostHeld {
			out = nil
		}
		select {
		case out <- s:
			f.held.Add(int64(len(s.message)))
			return nil
		case <-f.room:
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			if err := f.answer(); err != nil {
				return fmt.Errorf("the source: %w", err)
			}
		}
	}
}

// taken notes that what was passed on is held no longer.
func (f *stream) taken(s streamed) {
	f.held.Add(-int64(len(s.message)))
	select {
	case f.room <- struct{}{}:
	default:
	}
}

// answer tells the source what it needs to keep no longer, and asks how far it is.
func (f *stream) answer() error {
	const status, reply = 'r', 1
	at := f.confirmed.Load()
	data := []byte{status}
	for range 3 { // written, flushed, applied
		data = binary.BigEndian.AppendUint64(data, at)
	}
	data = binary.BigEndian.AppendUint64(data, 0) // our clock is nobody's concern
	data = append(data, reply)
	message, err := (&pgproto3.CopyData{Data: data}).Encode(nil)
	if err != nil {
		return err
	}
	if err := f.conn.Conn().SetWriteDeadline(time.Now().Add(waitForStream)); err != nil { // it may read nothing
		return err
	}
	return f.conn.Frontend().SendUnbufferedEncodedCopyData(message)
}
