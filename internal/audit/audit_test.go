package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
)

// auditStore keeps lines unless it is away.
type auditStore struct {
	mu    sync.Mutex
	away  bool
	lines []account.Audit
	calls int
}

func (s *auditStore) AddAudit(_ context.Context, lines ...account.Audit) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.away {
		return errors.New("away")
	}
	s.lines = append(s.lines, lines...)
	return nil
}

func (s *auditStore) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *auditStore) seen() (lines, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines), s.calls
}

func TestBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &auditStore{}
		r := audit.New(s, slog.New(slog.DiscardHandler))
		r.Start()
		for i := range 1200 {
			r.Record(account.Audit{Path: fmt.Sprint(i)})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if lines, calls := s.seen(); lines != 1200 || calls != 3 {
			t.Errorf("%d lines in %d calls", lines, calls)
		}
		for i, line := range s.lines {
			if line.Path != fmt.Sprint(i) {
				t.Fatalf("line %d is %s", i, line.Path)
			}
		}
		r.Record(account.Audit{Path: "last"})
		r.Stop()
		if lines, _ := s.seen(); lines != 1201 {
			t.Errorf("the stop lost a line: %d", lines)
		}
	})
}

// TestStoreAway: lines wait for a store that is away, and go to the log when
// steward stops before it is back, or too many wait.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &auditStore{away: true}
		r := audit.New(s, slog.New(slog.NewTextHandler(&log, nil)))
		r.Start()
		r.Record(account.Audit{Path: "/waits"})
		time.Sleep(10 * time.Second)
		s.setAway(false)
		time.Sleep(2 * time.Second)
		if lines, _ := s.seen(); lines != 1 {
			t.Fatalf("%d lines once the store is back", lines)
		}
		s.setAway(true)
		for i := range 10_000 {
			r.Record(account.Audit{Path: fmt.Sprintf("/%d", i)})
		}
		r.Stop()
		r.Record(account.Audit{Path: "/late"})
		if told := strings.Count(log.String(), "audit line not stored"); told != 10_001 {
			t.Errorf("%d lines are in the log", told)
		}
	})
}
