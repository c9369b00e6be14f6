package host

import (
	"fmt"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/process"
)

// member is a node as this process knows it. Nothing in it has to survive.
type member struct {
	id      cluster.ID
	ordinal int

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

	// Of a cluster with several nodes: how the node stood last and when that
	// was, and since when it hasn't followed the primary.
	standing engine.ReplicationStatus
	stood    time.Time
	astray   time.Time
	// rerouted tells that reads may be sent to the node since it last stood, or no
	// longer may.
	rerouted bool
	// diverged tells that the data can't follow the primary's any more.
	diverged bool
	// difference is what of the data was found to differ from the primary's, if that is why.
	difference string
	// hung tells that the server is there but doesn't answer; failedStarts counts
	// starts of the primary that came to nothing.
	hung         bool
	failedStarts int
	// undrainable tells that Drain found what the server left of no use.
	undrainable bool
	// rebuilding tells that the node is being given a new copy of the data,
	// rebuilds how often that was tried in vain, and rebuildDue when to try next.
	rebuilding bool
	rebuilds   int
	rebuildDue time.Time
	// hindrance is what of the customer's keeps it from being given one.
	hindrance string
}

// process is the one that should run; nil when none was started or it was
// stopped on purpose.
func (m *member) process() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.proc
}

func (m *member) setProcess(p *process.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proc, m.pinged, m.version = p, time.Time{}, ""
	m.standing, m.stood, m.astray, m.hung = engine.ReplicationStatus{}, time.Time{}, time.Time{}, false
	m.undrainable = false
}

func (m *member) running() bool {
	p := m.process()
	return p != nil && p.Running()
}

// answered notes that the server answered a ping.
func (m *member) answered(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pinged = now
}

// crashWindow and crashLimit say when repeated crashes are a problem.
const (
	crashWindow = 2 * time.Minute
	crashLimit  = 5
)

// crashed counts a crash and returns how long to wait before the restart:
// nothing for the first in a while, then 50 ms, doubling to 30 s.
func (m *member) crashed(now time.Time, lastWords string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.restarts++
	m.lastWords = lastWords
	recent := m.crashes[:0]
	for _, c := range m.crashes {
		// With long waits between them, the last crashes are further apart.
		if now.Sub(c) < 2*crashWindow {
			recent = append(recent, c)
		}
	}
	m.crashes = append(recent, now)
	n := len(m.crashes)
	if n == 1 {
		return 0
	}
	return min(50*time.Millisecond<<min(n-2, 20), 30*time.Second)
}

// trouble is what operators should hear of a server that goes on crashing.
func (m *member) trouble(now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	recent := 0
	for _, c := range m.crashes {
		if now.Sub(c) < crashWindow {
			recent++
		}
	}
	if recent < crashLimit {
		return ""
	}
	return fmt.Sprintf("the server exited %d times in %v: %s", recent, crashWindow, m.lastWords)
}
