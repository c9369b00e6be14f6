// Package audit writes the audit trail beside the requests it is about: they
// hand a line over and go on, and lines are stored a batch at a time. Nothing is
// lost at an ordinary stop; what can't be stored goes to the log.
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"steward/internal/account"
)

const (
	// held is how many lines wait at most, batch how many are stored at once.
	held, batch = 8192, 500
	// pause is what a line waits for company.
	pause = 100 * time.Millisecond
	// retry is between attempts while the store is away, patience how long the
	// last one may take.
	retry, patience = time.Second, 10 * time.Second
)

// Store is where lines are kept.
type Store interface {
	// AddAudit appends lines, all or nothing.
	AddAudit(ctx context.Context, entries ...account.Audit) error
}

// Recorder takes lines and stores them.
type Recorder struct {
	store Store
	log   *slog.Logger

	mu      sync.RWMutex
	closed  bool
	lines   chan *account.Audit // pointers, since most of its places are empty at all times
	written sync.WaitGroup
	// stopping ends waits for a store that is away.
	stopping chan struct{}
}

// New makes a recorder that Start has to start.
func New(store Store, log *slog.Logger) *Recorder {
	return &Recorder{store: store, log: log, lines: make(chan *account.Audit, held), stopping: make(chan struct{})}
}

// Record hands a line over. It never waits: with too many lines in the way, or
// after Stop, the line goes to the log.
func (r *Recorder) Record(line account.Audit) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.closed {
		select {
		case r.lines <- &line:
			return
		default:
		}
	}
	r.tell(line)
}

// Start begins to store lines.
func (r *Recorder) Start() {
	r.written.Go(func() {
		for {
			lines, more := r.gather()
			if len(lines) > 0 {
				r.write(lines)
			}
			if !more {
				return
			}
		}
	})
}

// Stop stores what was handed over, within bounds.
func (r *Recorder) Stop() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.stopping)
		close(r.lines)
	}
	r.mu.Unlock()
	r.written.Wait()
}

// gather waits for a line and for those that come soon after. more is false
// when there will be none.
func (r *Recorder) gather() (lines []account.Audit, more bool) {
	line, more := <-r.lines
	if !more {
		return nil, false
	}
	lines = append(lines, *line)
	late := time.NewTimer(pause)
	defer late.Stop()
	for len(lines) < batch {
		select {
		case line, more := <-r.lines:
			if !more {
				return lines, false
			}
			lines = append(lines, *line)
		case <-late.C:
			return lines, true
		}
	}
	return lines, true
}

// write stores lines, however long that takes; once stopping, for as long as
// patience lasts.
func (r *Recorder) write(lines []account.Audit) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		err := r.store.AddAudit(ctx, lines...)
		cancel()
		if err == nil {
			return
		}
		r.log.Warn("audit lines can't be stored yet", "lines", len(lines), "error", err)
		select {
		case <-r.stopping:
			for _, line := range lines {
				r.tell(line)
			}
			return
		case <-time.After(retry):
		}
	}
}

// tell writes to the log what the store didn't take.
func (r *Recorder) tell(line account.Audit) {
	r.log.Error("audit line not stored", "at", line.At, "account_id", int64(line.Account), "user_id", int64(line.User), "username", line.Username,
		"token_id", int64(line.Token), "client_id", string(line.Client), "address", line.Address, "action", line.Action, "path", line.Path,
		"status", line.Status, "request_id", line.RequestID)
}
