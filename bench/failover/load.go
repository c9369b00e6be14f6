package main

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/bench/command"
)

// pauseAfterError is how long a writer waits before it connects again.
const pauseAfterError = 2 * time.Millisecond

// row is the key of one written row.
type row struct {
	round, writer int
	seq           int64
}

// ack is the server's word that a row is written, and when.
type ack struct {
	row row
	at  time.Time
}

// load is a number of writers that insert as fast as they are answered.
type load struct {
	connector driver.Connector
	engine    string
	timeout   time.Duration
	writers   []*writer
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// writer inserts rows of its own, one after another. A row whose fate is unknown is
// never tried again: the next one has the next number.
type writer struct {
	load   *load
	number int
	round  int

	mu     sync.Mutex
	acks   []ack
	errors map[string]int // other than broken connections, by text
}

func startLoad(ctx context.Context, e Endpoint, round, writers int, timeout time.Duration) (*load, error) {
	c, err := e.connector()
	if err != nil {
		return nil, err
	}
	l := &load{connector: c, engine: e.Engine, timeout: timeout}
	ctx, l.cancel = context.WithCancel(ctx)
	for n := range writers {
		w := &writer{load: l, number: n, round: round, errors: map[string]int{}}
		l.writers = append(l.writers, w)
		l.wg.Go(func() { w.run(ctx) })
	}
	return l, nil
}

// stop lets each writer finish the row it is at.
func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}

func (w *writer) run(ctx context.Context) {
	var seq int64
	for ctx.Err() == nil {
		if err := w.session(ctx, &seq); err != nil {
			w.failed(err)
			command.Sleep(ctx, pauseAfterError)
		}
	}
}

// session writes over one connection until that breaks.
func (w *writer) session(ctx context.Context, seq *int64) error {
	// The end of the load must not look like a lost answer.
	unhurried := context.WithoutCancel(ctx)
	s, err := connect(unhurried, w.load.connector, w.load.engine, w.load.timeout)
	if err != nil {
		return err
	}
	defer s.close()
	for ctx.Err() == nil {
		*seq++
		r := row{w.round, w.number, *seq}
		if err := s.insert(unhurried, r, w.load.timeout); err != nil {
			return err
		}
		w.acked(r)
	}
	return nil
}

func (w *writer) acked(r row) {
	at := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks = append(w.acks, ack{r, at})
}

func (w *writer) failed(err error) {
	if isBroken(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errors[err.Error()]++
}

func (w *writer) last() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.acks) == 0 {
		return time.Time{}
	}
	return w.acks[len(w.acks)-1].at
}

// anyAfter reports whether some writer was answered after t, and everyAfter whether all were.
func (l *load) anyAfter(t time.Time) bool {
	return slices.ContainsFunc(l.writers, func(w *writer) bool { return w.last().After(t) })
}

func (l *load) everyAfter(t time.Time) bool {
	return !slices.ContainsFunc(l.writers, func(w *writer) bool { return !w.last().After(t) })
}

// acks are those of all writers in the order of time. Call it after stop.
func (l *load) acks() []ack {
	var all []ack
	for _, w := range l.writers {
		all = append(all, w.acks...)
	}
	slices.SortFunc(all, func(a, b ack) int { return cmp.Compare(a.at.Sub(b.at), 0) })
	return all
}

// otherErrors are those that aren't broken connections. Call it after stop.
func (l *load) otherErrors() map[string]int {
	all := map[string]int{}
	for _, w := range l.writers {
		for text, n := range w.errors {
			all[text] += n
		}
	}
	return all
}

// longestGap is the longest time without an acknowledged write, of those that
// ended after the fault. A gap that is still open lasts until end.
func longestGap(acks []ack, fault, end time.Time) time.Duration {
	var longest time.Duration
	last := fault
	for _, a := range acks {
		if a.at.After(fault) {
			longest = max(longest, a.at.Sub(last))
		}
		last = a.at
	}
	if end.After(fault) {
		longest = max(longest, end.Sub(last))
	}
	return longest
}

// outcome is what became of the rows that were acknowledged.
type outcome struct {
	lost       []row
	duplicates int
}

// check compares what was acknowledged with what is there. Rows that are there
// without having been acknowledged are no fault: their answer was lost.
func check(acks []ack, found map[row]int) outcome {
	var v outcome
	for _, a := range acks {
		if found[a.row] == 0 {
			v.lost = append(v.lost, a.row)
		}
	}
	for n := range maps.Values(found) {
		v.duplicates += n - 1
	}
	return v
}

// isBroken tells errors that any client must expect when a server goes away, and
// reconnects after, from those that say something else: a refused write above all.
func isBroken(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		// 57P: the server ends or isn't up yet; 08: HAProxy or a pooler says so.
		return strings.HasPrefix(pg.Code, "57P") || strings.HasPrefix(pg.Code, "08")
	}
	var my *mysql.MySQLError
	if errors.As(err, &my) {
		const shutdown, killed = 1053, 1927
		return my.Number == shutdown || my.Number == killed
	}
	var network net.Error
	var connecting *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connecting) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, context.DeadlineExceeded) || isEOF(err)
}

// isEOF also finds the ends of connections that drivers pass on as text alone.
func isEOF(err error) bool {
	text := err.Error()
	return strings.Contains(text, "EOF") || strings.Contains(text, "conn closed") || strings.Contains(text, "reset by peer") ||
		strings.Contains(text, "broken pipe") || strings.Contains(text, "bad connection")
}
