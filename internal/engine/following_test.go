package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/migration"
)

// scripted is a database whose source sends what it is told to.
type scripted struct {
	sends    chan int
	ends     error
	endsAt   time.Duration
	changed  time.Duration // when the source's tables do
	began    time.Time
	did      []string
	has, end int
}

var errChanged = errors.New("the source's tables have changed")

func (s *scripted) note(format string, args ...any) {
	s.did = append(s.did, fmt.Sprintf(format, args...))
}

func (s *scripted) Receive(ctx context.Context) error {
	defer close(s.sends)
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Second):
			if time.Since(s.began) >= s.endsAt {
				return s.ends
			}
			s.sends <- i
		}
	}
}
func (s *scripted) Received() <-chan int { return s.sends }
func (s *scripted) Take(_ context.Context, m int, _ bool) error {
	s.has = m
	s.note("take %d", m)
	return nil
}
func (s *scripted) Look(context.Context) error { return nil }
func (s *scripted) Unchanged(context.Context) error {
	s.note("unchanged")
	if time.Since(s.began) >= s.changed {
		return errChanged
	}
	return nil
}

func (s *scripted) CutOver(context.Context) error {
	s.end = s.has + 2
	s.note("cut over")
	return nil
}
func (s *scripted) Reached() bool { return s.has >= s.end }
func (s *scripted) Open(context.Context) error {
	s.note("open")
	return nil
}

// TestFollow: a database keeps up until all is here that its source had when the cutover was asked for, and no longer than the source
// sends and is what it was.
func TestFollow(t *testing.T) {
	t.Parallel()
	errGone, never := errors.New("the source is gone"), time.Hour
	for name, c := range map[string]struct {
		asked, endsAt, changed time.Duration
		want                   error
		did                    []string
	}{
		"is cut over":            {25 * time.Second, never, never, nil, []string{"take 1", "take 2", "cut over", "take 3", "unchanged", "take 4", "unchanged", "open"}},
		"source ends":            {never, 25 * time.Second, never, errGone, []string{"take 1", "take 2"}},
		"source changes":         {never, never, 25 * time.Second, errChanged, []string{"take 1", "take 2", "take 3", "unchanged"}},
		"changes while it's cut": {15 * time.Second, never, 25 * time.Second, errChanged, []string{"take 1", "cut over", "take 2", "take 3", "unchanged"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{sends: make(chan int), ends: errGone, endsAt: c.endsAt, changed: c.changed, began: time.Now()}
				asked := make(chan struct{})
				ask := time.AfterFunc(c.asked, func() { close(asked) })
				defer ask.Stop()
				var phases []migration.Phase
				err := Follow(t.Context(), s, asked, func(p ImportProgress) { phases = append(phases, p.Phase) })
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
				if !slices.Equal(s.did, c.did) {
					t.Errorf("did %q, want %q", s.did, c.did)
				}
				want := []migration.Phase{migration.Following}
				if slices.Contains(c.did, "cut over") {
					want = append(want, migration.CuttingOver)
				}
				if !slices.Equal(phases, want) {
					t.Errorf("reported %q, want %q", phases, want)
				}
			})
		})
	}
}
