package mysql

import (
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/engine"
)

// filter takes of archived logs the transactions that a server lacks.
type filter struct {
	read func(logEvent) (transaction, error)
	// at is how far the server will have got.
	at position
	// target is the point in time up to which transactions are taken.
	target time.Time
	// last is when the last transaction taken was committed; beyond reports that the next
	// one was committed after target.
	last   time.Time
	beyond bool
}

// copy writes to w the log of a segment without what the server has already, what
// comes at until or after it, and what was committed after the point in time. A transaction is
// taken whole or not at all. It returns how many were taken.
func (x *filter) copy(p segment, until uint64, r io.Reader, w io.Writer) (taken int, err error) {
	log, err := newLogReader(r)
	if err != nil {
		return 0, err
	}
	if _, err := io.WriteString(w, binlogMagic); err != nil {
		return 0, err
	}
	within := false
	for !x.beyond {
		e, err := log.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return taken, err
		}
		if within, err = x.within(e, within, p, until); err != nil {
			return taken, fmt.Errorf("%v: %w", p, err)
		}
		if within && e.begins() {
			taken++
		}
		if within || e.heads() {
			if _, err := w.Write(e); err != nil {
				return taken, err
			}
		}
	}
	return taken, x.checkEnd(p, until)
}

// checkEnd returns engine.ErrGap when the segment didn't lead to where it should.
func (x *filter) checkEnd(p segment, until uint64) error {
	if got := x.at.transactions(); !x.beyond && got != until {
		return fmt.Errorf("%v leads to transaction %d, not %d: %w", p, got, until, engine.ErrGap)
	}
	return nil
}

// within reports whether the event is of a transaction that is taken; before is the same
// of the event before it.
func (x *filter) within(e logEvent, before bool, p segment, until uint64) (bool, error) {
	switch {
	case e.between():
		return false, nil
	case e.begins():
		return x.wants(e, p, until)
	}
	return before, nil
}

// wants reports whether the transaction that begins with the event is to be taken, and
// then counts it as done. Where the whole segment counts, no transaction may be left that isn't there yet.
func (x *filter) wants(e logEvent, p segment, until uint64) (bool, error) {
	t, err := x.read(e)
	if err != nil {
		return false, err
	}
	if x.at.has(t) {
		return false, nil
	}
	if x.at.transactions() >= until {
		if until == p.to {
			err = fmt.Errorf("it holds more than up to transaction %d: %w", until, engine.ErrGap)
		}
		return false, err
	}
	if t.ended.After(x.target) {
		x.beyond = true
		return false, nil
	}
	if err := x.at.add(t); err != nil {
		return false, err
	}
	x.last = t.ended
	return true, nil
}

// position is how far in a history of transactions somebody is.
type position interface {
	// transactions is how many there are up to it.
	transactions() uint64
	has(t transaction) bool
	// add is done in order; engine.ErrGap where one was left out.
	add(t transaction) error
	clone() position
	String() string
}

// numbered is the position in MariaDB's history: the number of the last transaction.
// All nodes number on from each other's.
type numbered uint64

func (n *numbered) transactions() uint64   { return uint64(*n) }
func (n *numbered) has(t transaction) bool { return t.number <= uint64(*n) }
func (n *numbered) clone() position        { return new(*n) }
func (n *numbered) String() string         { return fmt.Sprint(uint64(*n)) }

func (n *numbered) add(t transaction) error {
	if t.number != uint64(*n)+1 {
		return fmt.Errorf("transaction %d follows %d: %w", t.number, uint64(*n), engine.ErrGap)
	}
	*n = numbered(t.number)
	return nil
}

// Of MySQL's it is the set of all of them.

func (s gtidSet) transactions() uint64 { return s.count() }

func (s gtidSet) has(t transaction) bool { return s.holds(gtidSet{t.source: {{t.number, t.number}}}) }
func (s gtidSet) clone() position        { return union(s) }

func (s gtidSet) add(t transaction) error {
	if runs := s[t.source]; len(runs) > 0 && runs[len(runs)-1].last+1 == t.number {
		runs[len(runs)-1].last = t.number
		return nil
	}
	s[t.source] = append(s[t.source], gtidRun{t.number, t.number})
	s.normalise()
	return nil
}
