package mysql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"steward/internal/engine"
)

var _ engine.Feeder = (*Driver)(nil)

const (
	// rotateAfter is for how long a log is written to that holds something.
	rotateAfter = time.Minute
	// keepShipped is for how long logs stay that were archived: replicas that were
	// away go on from them. Customers may choose another time: see keep.
	keepShipped = 15 * time.Minute
	// forgetAfter, in seconds, is when a server lets logs go by itself that nobody
	// has asked for: a week.
	forgetAfter = 7 * 24 * 60 * 60
	// askTime bounds what a server that hangs, or commits that do, may hold up.
	askTime = 10 * time.Second
)

const flush = "FLUSH LOCAL BINARY LOGS"

// continuity is what differs between the flavours in continuous archiving.
type continuity struct {
	// lineage names the history of the server's data.
	lineage func(ctx context.Context, s *session) (string, error)
	// begins is how many transactions came before a log; next is that of the log
	// after it, or of where the server is now.
	begins func(ctx context.Context, s *session, log string, next uint64) (uint64, error)
	// here is how far the server is.
	here func(ctx context.Context, s *session) (place, error)
	read func(logEvent) (transaction, error)
	// unpack makes data of a copy that goes on where it ended, sever a lineage of
	// its own of data that has gone on.
	unpack func(ctx context.Context, n engine.Node, archive *engine.ArchiveReader, dir string, run engine.Piper) error
	sever  func(ctx context.Context, n engine.Node, dir string, run engine.Piper) error
	// change makes the server a replica that has received the log of a name already.
	change string
	// start, stop and reset are its other words for that, with the channel's name.
	start, stop, reset string
	settings           []setting
}

func continuityOf(f engine.Flavour) *continuity {
	if f == engine.FlavourMariaDB {
		return &mariaDBContinuity
	}
	return &mySQLContinuity
}

// serverLog is a binary log on a server: the transactions after from, up to to.
type serverLog struct {
	name     string
	bytes    int64
	from, to uint64
}

// HandOver is part of engine.Feeder.
func (d *Driver) HandOver(ctx context.Context, n engine.Node, was engine.Handed, to engine.Shipment) (engine.Handed, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return was, err
	}
	defer s.close()
	h := &handover{Driver: d, n: n, s: s, c: continuityOf(n.Installation.Flavour), handed: was}
	if err := h.do(ctx, to); err != nil {
		return h.handed, fmt.Errorf("hand binary logs of node %d over: %w", n.Ordinal, err)
	}
	return h.handed, nil
}

// LetGo is part of engine.Feeder.
func (d *Driver) LetGo(ctx context.Context, n engine.Node, was engine.Handed) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	h := &handover{Driver: d, n: n, s: s, c: continuityOf(n.Installation.Flavour), handed: was}
	err = h.look(ctx)
	if err == nil {
		_, err = h.letGo(ctx)
	}
	if err != nil {
		return fmt.Errorf("let binary logs of node %d go: %w", n.Ordinal, err)
	}
	return nil
}

// handover is one look at a server's binary logs.
type handover struct {
	*Driver
	n       engine.Node
	s       *session
	c       *continuity
	handed  engine.Handed
	lineage string
	// done is up to where this lineage's were handed over in this term.
	done uint64
	// logs are, in order, those that may hold what wasn't handed over; the last one
	// is being written. older are those before them.
	logs  []serverLog
	older []serverLog
}

func (h *handover) do(ctx context.Context, to engine.Shipment) error {
	if err := h.look(ctx); err != nil {
		return err
	}
	// Before anything is read: a log that is being read can't go.
	gone, err := h.letGo(ctx)
	if err != nil {
		return err
	}
	rotated, err := h.rotate(ctx)
	if err != nil {
		return err
	}
	if gone || rotated {
		if err := h.look(ctx); err != nil {
			return err
		}
	}
	if err := h.compare(ctx, to); err != nil {
		return err
	}
	for _, log := range h.logs[:len(h.logs)-1] {
		if log.to <= h.handed.Position || log.from == log.to {
			continue
		}
		if err := h.one(ctx, log, to); err != nil {
			return err
		}
		h.handed.Position = log.to
	}
	h.handed.Told = false
	return nil
}

// look lists the logs, and finds out of the last ones what is in them.
func (h *handover) look(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if h.lineage, err = h.c.lineage(ctx, h.s); err != nil {
		return err
	}
	rows, err := h.s.rows(ctx, "SHOW BINARY LOGS")
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("the server writes no binary log")
	}
	all := make([]serverLog, len(rows))
	for i, r := range rows {
		all[i].name = r[0]
		if all[i].bytes, err = strconv.ParseInt(r[1], 10, 64); err != nil {
			return fmt.Errorf("size of %s: %w", r[0], err)
		}
	}
	now, err := h.c.here(ctx, h.s)
	if err != nil {
		return err
	}
	h.done = 0
	if h.handed.Lineage == h.lineage && h.handed.Term == h.n.Term {
		h.done = h.handed.Position
	}
	next, first := now.position(), len(all)
	for first > 0 && (first == len(all) || next > h.done) {
		first--
		l := &all[first]
		l.to = next
		if l.from, err = h.c.begins(ctx, h.s, l.name, next); err != nil {
			return err
		}
		next = l.from
	}
	h.older, h.logs = all[:first], all[first:]
	return nil
}

// rotate ends the log that is being written when it holds something and is a
// minute old: since when is when the one before it was ended.
func (h *handover) rotate(ctx context.Context) (bool, error) {
	last := h.logs[len(h.logs)-1]
	if last.from >= last.to {
		return false, nil
	}
	before := ""
	if len(h.logs) > 1 {
		before = h.logs[len(h.logs)-2].name
	} else if len(h.older) > 0 {
		before = h.older[len(h.older)-1].name
	}
	if before != "" && !h.ended(before, rotateAfter) {
		return false, nil
	}
	// While commits wait for a replica, this may wait for them. Once is enough.
	waits, err := h.s.text(ctx, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = 'steward' AND INFO LIKE '"+flush+"%'")
	if err != nil || waits != "0" {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return true, h.s.exec(ctx, flush)
}

// ended tells whether a log was ended so long ago.
func (h *handover) ended(log string, ago time.Duration) bool {
	info, err := os.Lstat(filepath.Join(h.n.Data, log))
	return errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) >= ago
}

// compare tells when logs went that nobody has taken, and begins anew where the
// history or the primary is another one.
func (h *handover) compare(ctx context.Context, to engine.Shipment) error {
	oldest, same := h.logs[0].from, h.handed.Lineage == h.lineage
	if lost := same && h.handed.Position < oldest; lost && !h.handed.Told {
		if err := to.Overflowed(ctx); err != nil {
			return err
		}
		h.handed.Told = true
	}
	if !same || h.handed.Term != h.n.Term {
		h.handed = engine.Handed{Lineage: h.lineage, Term: h.n.Term, Told: same && h.handed.Told}
	}
	// What went isn't asked for again.
	h.handed.Position = max(h.handed.Position, oldest)
	return nil
}

func (h *handover) one(ctx context.Context, log serverLog, to engine.Shipment) error {
	content, err := h.dump(ctx, h.n, log.name)
	if err != nil {
		return err
	}
	defer content.Close()
	p := piece{term: uint64(h.n.Term), from: log.from, to: log.to}
	return to.Take(ctx, h.lineage, p.String(), content)
}

// letGo has the server remove logs that were taken some time ago; and the oldest
// whatever was done with them, when there is too much. It tells whether any is gone.
func (h *handover) letGo(ctx context.Context) (bool, error) {
	all := append(append([]serverLog{}, h.older...), h.logs...)
	total := int64(0)
	for _, l := range all {
		total += l.bytes
	}
	bound := tune(h.n.Plan).binlogTotalMB * mb
	kept := 0
	for ; kept < len(all)-1; kept++ {
		taken := kept < len(h.older) || all[kept].to <= h.done
		if total <= bound && !(taken && h.ended(all[kept].name, keep(h.n))) {
			break
		}
		total -= all[kept].bytes
	}
	if kept == 0 {
		return false, nil
	}
	return true, h.s.exec(ctx, "PURGE BINARY LOGS TO "+quote(all[kept].name))
}
