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

const (
	// archiveTimeout bounds how long one cluster can hold the others up. What it has
	// uploaded by then counts.
	archiveTimeout = 5 * time.Minute
	// rotateAfter is for how long a log is written to once it holds something.
	rotateAfter = time.Minute
	// keepArchived is for how long logs stay that were archived: replicas that were
	// away go on from them. Customers may choose another time: see keep.
	keepArchived = 15 * time.Minute
	// forgetAfter, in seconds, is when a server purges logs by itself that nobody
	// has asked for: a week.
	forgetAfter = 7 * 24 * 60 * 60
	// askTime bounds what a server that hangs, or commits that do, may hold up.
	askTime = 10 * time.Second
)

const flush = "FLUSH LOCAL BINARY LOGS"

// serverLog is a binary log on a server: the transactions after from, up to to.
type serverLog struct {
	name     string
	bytes    int64
	from, to uint64
}

// Upload implements engine.ContinuousArchiver: it archives the binary logs of the primary,
// and purges from the replicas what is archived.
func (d *Driver) Upload(ctx context.Context, nodes []engine.ArchivedNode, from engine.ArchivePosition, to engine.ArchiveSink) (engine.ArchivePosition, error) {
	ctx, cancel := context.WithTimeout(ctx, archiveTimeout)
	defer cancel()
	primary, running, err := runningPrimary(ctx, nodes)
	if err != nil || !running {
		return from, err
	}
	now, err := d.archiveBinlogs(ctx, primary, from, to)
	if err != nil {
		return now, err
	}
	var errs []error
	for _, node := range nodes {
		if !isReplica(node.Node) {
			continue
		}
		n, running, err := node.Running(ctx)
		if err == nil && running {
			err = d.purgeBinlogs(ctx, n, now)
		}
		errs = append(errs, err)
	}
	return now, errors.Join(errs...)
}

func runningPrimary(ctx context.Context, nodes []engine.ArchivedNode) (engine.Node, bool, error) {
	for _, n := range nodes {
		if !isReplica(n.Node) {
			return n.Running(ctx)
		}
	}
	return engine.Node{}, false, nil
}

// archiveBinlogs uploads, in order, what the running primary n has written since from.
// The server purges what was archived after a while.
func (d *Driver) archiveBinlogs(ctx context.Context, n engine.Node, from engine.ArchivePosition, to engine.ArchiveSink) (engine.ArchivePosition, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return from, err
	}
	defer s.close()
	h := &binlogArchiver{Driver: d, n: n, s: s, f: flavourOf(n.Installation.Flavour), position: from}
	if err := h.do(ctx, to); err != nil {
		return h.position, fmt.Errorf("archive binary logs of node %d: %w", n.Ordinal, err)
	}
	return h.position, nil
}

// purgeBinlogs has a running replica purge what its primary has archived.
func (d *Driver) purgeBinlogs(ctx context.Context, n engine.Node, archived engine.ArchivePosition) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	h := &binlogArchiver{Driver: d, n: n, s: s, f: flavourOf(n.Installation.Flavour), position: archived}
	err = h.look(ctx)
	if err == nil {
		_, err = h.purge(ctx)
	}
	if err != nil {
		return fmt.Errorf("purge binary logs of node %d: %w", n.Ordinal, err)
	}
	return nil
}

// binlogArchiver is one look at a server's binary logs.
type binlogArchiver struct {
	*Driver
	n         engine.Node
	s         *session
	f         flavour
	position  engine.ArchivePosition
	archiveID string
	// archived is up to where those of this history were archived in this term.
	archived uint64
	// logs are, in order, those that may hold what isn't archived; the last one
	// is being written. older are those before them.
	logs  []serverLog
	older []serverLog
}

func (h *binlogArchiver) do(ctx context.Context, to engine.ArchiveSink) error {
	if err := h.look(ctx); err != nil {
		return err
	}
	// Before anything is read: a log that is being read can't go.
	gone, err := h.purge(ctx)
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
		if log.to <= h.position.Position || log.from == log.to {
			continue
		}
		if err := h.one(ctx, log, to); err != nil {
			return err
		}
		h.position.Position = log.to
	}
	h.position.GapReported = false
	return nil
}

// look lists the logs, and finds out of the last ones what is in them.
func (h *binlogArchiver) look(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if h.archiveID, err = h.f.archiveID(ctx, h.s); err != nil {
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
	now, err := h.f.position(ctx, h.s)
	if err != nil {
		return err
	}
	h.archived = 0
	if h.position.ArchiveID == h.archiveID && h.position.Term == h.n.Term {
		h.archived = h.position.Position
	}
	next, first := now.transactions(), len(all)
	for first > 0 && (first == len(all) || next > h.archived) {
		first--
		l := &all[first]
		l.to = next
		if l.from, err = h.f.begins(ctx, h.s, l.name, next); err != nil {
			return err
		}
		next = l.from
	}
	h.older, h.logs = all[:first], all[first:]
	return nil
}

// rotate ends the log that is being written when it holds something and is a
// minute old: since when is when the one before it was ended.
func (h *binlogArchiver) rotate(ctx context.Context) (bool, error) {
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

// ended reports whether a log was ended so long ago.
func (h *binlogArchiver) ended(log string, ago time.Duration) bool {
	info, err := os.Lstat(filepath.Join(h.n.Data, log))
	return errors.Is(err, fs.ErrNotExist) || err == nil && time.Since(info.ModTime()) >= ago
}

// compare reports a gap when logs were purged before they were archived, and begins anew where the
// history or the primary is another one.
func (h *binlogArchiver) compare(ctx context.Context, to engine.ArchiveSink) error {
	oldest, same := h.logs[0].from, h.position.ArchiveID == h.archiveID
	if lost := same && h.position.Position < oldest; lost && !h.position.GapReported {
		if err := to.ReportGap(ctx); err != nil {
			return err
		}
		h.position.GapReported = true
	}
	if !same || h.position.Term != h.n.Term {
		h.position = engine.ArchivePosition{ArchiveID: h.archiveID, Term: h.n.Term, GapReported: same && h.position.GapReported}
	}
	// What was purged isn't asked for again.
	h.position.Position = max(h.position.Position, oldest)
	return nil
}

func (h *binlogArchiver) one(ctx context.Context, log serverLog, to engine.ArchiveSink) error {
	content, err := h.dump(ctx, h.n, log.name)
	if err != nil {
		return err
	}
	defer content.Close()
	p := segment{term: uint64(h.n.Term), from: log.from, to: log.to}
	return to.Put(ctx, h.archiveID, p.String(), content)
}

// purge has the server remove logs that were archived some time ago, and the oldest
// even if not archived, when there is too much. It reports whether any is gone.
func (h *binlogArchiver) purge(ctx context.Context) (bool, error) {
	all := append(append([]serverLog{}, h.older...), h.logs...)
	total := int64(0)
	for _, l := range all {
		total += l.bytes
	}
	bound := tune(h.n.Plan).binlogTotalMB * mb
	kept := 0
	for ; kept < len(all)-1; kept++ {
		taken := kept < len(h.older) || all[kept].to <= h.archived
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
