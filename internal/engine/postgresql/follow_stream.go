package postgresql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
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

// mostSmall is how large a message may be of which each of a migration's streams may hold some at once.
const mostSmall = 1 << 20

// sizeGuard reads what a server sends and refuses a message that is too large before anything is made for it. What is large but not too large waits until
// no other stream of the migration holds such a message.
type sizeGuard struct {
	io.Reader
	// head is what is known of the next message's beginning, left how much of the current one is to come.
	head []byte
	left int
	// large is what a stream has to have that holds a large message; nil for nothing. holds reports whether this one has it.
	large engine.Turn
	holds atomic.Bool
	// kept is what was read and has to wait.
	kept []byte
}

// Read implements io.Reader. While another stream has the turn it times out now and then, as a source does that sends nothing.
func (g *sizeGuard) Read(p []byte) (n int, err error) {
	if len(g.kept) > 0 {
		n = copy(p, g.kept)
		g.kept = g.kept[n:]
	} else if n, err = g.Reader.Read(p); n == 0 {
		return 0, err
	}
	passed, refused := g.pass(p[:n])
	switch {
	case refused != nil:
		return 0, refused
	case passed == n:
		return n, err
	}
	g.kept = append(bytes.Clone(p[passed:n]), g.kept...)
	if passed == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return passed, nil
}

// pass returns how much of what was read may be passed on: all but a large message whose turn it isn't, from the last byte that tells its length.
func (g *sizeGuard) pass(read []byte) (passed int, err error) {
	const header = 5 // a letter, and the length with itself
	for passed < len(read) {
		if g.left > 0 {
			skipped := min(g.left, len(read)-passed)
			g.left -= skipped
			passed += skipped
			continue
		}
		if len(g.head) < header-1 {
			g.head = append(g.head, read[passed])
			passed++
			continue
		}
		length := binary.BigEndian.Uint32([]byte{g.head[1], g.head[2], g.head[3], read[passed]})
		if length > mostMessage {
			return 0, errLarge
		}
		if length > mostSmall && !g.take() {
			return passed, nil
		}
		g.left, g.head = max(0, int(length)-4), g.head[:0]
		passed++
	}
	return passed, nil
}

// take reports whether a large message may be held now.
func (g *sizeGuard) take() bool {
	if g.large == nil {
		return true
	}
	if !g.large.Take(hurriedly) {
		return false
	}
	g.holds.Store(true)
	return true
}

// give lets another stream hold a large message.
func (g *sizeGuard) give() {
	if g.holds.Swap(false) {
		g.large.Give()
	}
}

// streamed is something that a source has sent: a change, or, without one, that everything up to a place was sent.
type streamed struct {
	message []byte
	upTo    lsn
	// large reports whether other streams wait until it is held no longer.
	large bool
}

// stream receives what a slot has to send. It answers the source while what it has received is applied.
type stream struct {
	s     engine.Source
	conn  *pgconn.PgConn
	guard *sizeGuard
	// out is what has come, held how many bytes of it wait, and room signals that there are fewer of them.
	out  chan streamed
	held atomic.Int64
	room chan struct{}
	// end is the furthest that the source is known to be, confirmed what it needs to keep no longer.
	end, confirmed atomic.Uint64
	// urgent reports whether somebody waits for the source to say how far it is.
	urgent atomic.Bool
	// sent is how much has come since the last commit.
	sent int64
}

// mostWaiting and mostHeld are how many messages, and bytes of them, are received ahead.
const mostWaiting, mostHeld = 4096, 4 << 20

const (
	// answerEvery is how often a source is told how far we are, and asked how far it is; hurriedly is the same while somebody waits.
	answerEvery = time.Second
	hurriedly   = 50 * time.Millisecond
)

// startStream begins to receive what a slot has from a place on.
func startStream(ctx context.Context, s engine.Source, database, slot string, from lsn) (*stream, error) {
	unbounded := s // run sees to how long it is silent, and how much it sends without a commit
	unbounded.Received, unbounded.Most, unbounded.Silence = &engine.Received{}, math.MaxInt64, 0
	f := &stream{s: s, out: make(chan streamed, mostWaiting), room: make(chan struct{}, 1)}
	conn, err := atSource(ctx, unbounded, database, replicating(&f.guard))
	if err != nil {
		return nil, err
	}
	f.conn = conn
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
	f.guard.large = s.Large
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
		if f.urgent.Load() {
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
		case err != nil && pgconn.Timeout(err) && len(f.guard.kept) > 0:
			heard = time.Now() // it isn't the source that is waited for
			if f.s.Heard != nil {
				f.s.Heard()
			}
			continue
		case err != nil && pgconn.Timeout(err) && time.Since(heard) > f.s.Silence:
			return &engine.SourceError{Reason: "It was given up: " + engine.ErrSilent.Error() + ".", Passing: true}
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
		f.guard.give()
		return nil
	case *pgproto3.CopyDone:
		return errors.New("the source has ended the stream")
	}
	return errNotPostgreSQL
}

// data takes a piece of the stream: a change, or how far the source is.
func (f *stream) data(ctx context.Context, data []byte) error {
	const keepalive, change = 'k', 'w'
	large := len(data)+4 > mostSmall // with its length, as the guard sees it
	s := &scanner{left: data}
	switch s.byte() {
	case keepalive:
		upTo := s.place()
		if s.bad {
			return &engine.SourceError{Reason: errMangled.Error() + "."}
		}
		f.know(upTo)
		return f.hand(ctx, streamed{upTo: upTo, large: large})
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
		return f.hand(ctx, streamed{message: bytes.Clone(s.left), large: large})
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
