package host

import (
	"context"
	"fmt"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/process"
)

// unit is a cluster as this process knows it. Nothing in it has to survive.
type unit struct {
	id cluster.ID
	// turn is held by whoever changes the cluster: Apply, Remove, a restart.
	turn chan struct{}

	mu       sync.Mutex
	proc     *process.Process
	restarts int
	crashes  []time.Time
	// lastWords are the end of the server's output at its last crash.
	lastWords string
	pinged    time.Time
	version   string
	used      int64
	usedAt    time.Time
	// problem is what Apply found to stand in the way.
	problem   string
	permanent bool
}

func newUnit(id cluster.ID) *unit {
	return &unit{id: id, turn: make(chan struct{}, 1)}
}

// take waits for the unit's turn.
func (u *unit) take(ctx context.Context) error {
	select {
	case u.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other work on cluster %d: %w", u.id, ctx.Err())
	}
}

func (u *unit) give() { <-u.turn }

// process is the one that should run; nil when none was started or it was
// stopped on purpose.
func (u *unit) process() *process.Process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.proc
}

func (u *unit) setProcess(p *process.Process) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.proc, u.pinged, u.version = p, time.Time{}, ""
}

func (u *unit) running() bool {
	p := u.process()
	return p != nil && p.Running()
}

func (u *unit) setProblem(problem string, permanent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.problem, u.permanent = problem, permanent
}

// crashWindow and crashLimit say when repeated crashes are a problem.
const (
	crashWindow = 2 * time.Minute
	crashLimit  = 5
)

// crashed counts a crash and returns how long to wait before the restart:
// nothing for the first in a while, then 50 ms, doubling to 30 s.
func (u *unit) crashed(now time.Time, lastWords string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.restarts++
	u.lastWords = lastWords
	recent := u.crashes[:0]
	for _, c := range u.crashes {
		// With long waits between them, the last crashes are further apart.
		if now.Sub(c) < 2*crashWindow {
			recent = append(recent, c)
		}
	}
	u.crashes = append(recent, now)
	n := len(u.crashes)
	if n == 1 {
		return 0
	}
	return min(50*time.Millisecond<<min(n-2, 20), 30*time.Second)
}

// trouble is the problem that operators should hear of.
func (u *unit) trouble(now time.Time) (problem string, permanent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.problem != "" {
		return u.problem, u.permanent
	}
	recent := 0
	for _, c := range u.crashes {
		if now.Sub(c) < crashWindow {
			recent++
		}
	}
	if recent < crashLimit {
		return "", false
	}
	return fmt.Sprintf("the server exited %d times in %v: %s", recent, crashWindow, u.lastWords), false
}
