package host

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/process"
)

// nodeState is what this process knows of a node. Nothing in it has to survive a restart.
type nodeState struct {
	id      cluster.ID
	ordinal int

	mu   sync.Mutex
	proc *process.Process
	// listen is where the server listens.
	listen   netip.AddrPort
	restarts int
	crashes  []time.Time
	// backoff counts the ends of a server in a row that came soon after its start, and startDue is when the next start is. startedFor is what
	// it was started for last.
	backoff    process.Backoff
	startDue   time.Time
	startedFor string
	// endOf is the process whose end was counted last, and endPause what followed that.
	endOf    *process.Process
	endPause time.Duration
	// lastWords are the end of the server's output at its last crash.
	lastWords string
	pinged    time.Time
	version   string
	used      int64
	usedAt    time.Time
	meter     nodeMeter

	// Of a cluster with several nodes: the replication status last reported and when
	// that was, and since when the node hasn't followed the primary.
	replication       engine.ReplicationStatus
	replicationAt     time.Time
	disconnectedSince time.Time
	// asked is when that status was asked for, by the machine's clock. Since then, since
	// when its server runs and follows, a replica may lack what it had acknowledged before;
	// caughtUp reports whether it has been seen to have it all again.
	asked, since time.Time
	caughtUp     bool
	// readableChanged reports whether the last replication status changed whether reads
	// may be sent to the node.
	readableChanged bool
	// diverged reports whether the data can't follow the primary's any more.
	diverged bool
	// difference is what of the data was found to differ from the primary's, if that is why.
	difference string
	// hung reports whether the server is there but doesn't answer; failedStarts counts
	// starts of the primary that came to nothing.
	hung         bool
	failedStarts int
	// undrainable reports whether Drain found what the server left of no use.
	undrainable bool
	// rebuilding reports whether the node is being given a new copy of the data,
	// rebuilds how often that was tried in vain, and rebuildDue when to try next.
	rebuilding bool
	rebuilds   int
	rebuildDue time.Time
	// inspecting is full while somebody looks into the server, shaping while somebody changes what is inside it, and
	// readingLog while somebody reads its log.
	inspecting, shaping, readingLog chan struct{}
	// blockedBy is what of the customer's keeps it from being given one.
	blockedBy string
}

// process is the one that should run; nil when none was started or it was
// stopped on purpose.
func (ns *nodeState) process() *process.Process {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.proc
}

func (ns *nodeState) setProcess(p *process.Process) {
	defer ns.dropMeter()
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.proc, ns.pinged, ns.version = p, time.Time{}, ""
	ns.replication, ns.replicationAt, ns.disconnectedSince, ns.hung = engine.ReplicationStatus{}, time.Time{}, time.Time{}, false
	ns.undrainable = false
	ns.followsAnew()
}

func (ns *nodeState) setListen(at netip.AddrPort) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.listen = at
}

func (ns *nodeState) listensAt() netip.AddrPort {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.listen
}

func (ns *nodeState) running() bool {
	p := ns.process()
	return p != nil && p.Running()
}

// answered notes that the server answered a ping.
func (ns *nodeState) answered(now time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.pinged = now
}

// crashCount is how often the server was started again after it had ended by itself.
func (ns *nodeState) crashCount() int {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.restarts
}

// crashWindow and crashLimit say when repeated crashes are a problem.
const (
	crashWindow = 2 * time.Minute
	crashLimit  = 5
)

// exited counts the end of a server, which nobody asked for, and returns how long to wait before the restart, and its last words.
func (ns *nodeState) exited(now time.Time, p *process.Process, words func() string) (pause time.Duration, said string) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.countEnd(now, p, words)
	return ns.endPause, ns.lastWords
}

// countEnd is exited for callers that hold mu. Whoever finds first that a server has ended counts that, and reads what it said.
func (ns *nodeState) countEnd(now time.Time, p *process.Process, words func() string) {
	if ns.endOf != p {
		ns.endOf, ns.endPause = p, ns.countCrash(now, time.Since(p.Started()))
		ns.lastWords = words()
	}
}

// crashed counts a crash of a server that has lived for so long, and returns how long to wait before the restart.
func (ns *nodeState) crashed(now time.Time, lived time.Duration, lastWords string) time.Duration {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.lastWords = lastWords
	return ns.countCrash(now, lived)
}

func (ns *nodeState) countCrash(now time.Time, lived time.Duration) time.Duration {
	ns.restarts++
	recent := ns.crashes[:0]
	for _, c := range ns.crashes {
		if now.Sub(c) < crashWindow {
			recent = append(recent, c)
		}
	}
	ns.crashes = append(recent, now)
	pause := ns.backoff.Ended(lived)
	ns.startDue = now.Add(pause)
	return pause
}

// mayStart is nil when the server may be started for a purpose, other than by who waits for its time. One that keeps ending may for what it wasn't
// started for before.
func (ns *nodeState) mayStart(now time.Time, purpose string, words func() string) error {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if ns.proc != nil && !ns.proc.Running() {
		ns.countEnd(now, ns.proc, words)
	}
	if purpose == ns.startedFor && now.Before(ns.startDue) {
		return fmt.Errorf("the server has ended %d times soon after its start, and is started again later: %s", ns.backoff.Ends(), ns.lastWords)
	}
	if purpose != ns.startedFor {
		ns.backoff.Reset()
		ns.crashes = nil
	}
	ns.startedFor = purpose
	return nil
}

// startsAnew forgets how often the server has ended by itself: it was stopped on purpose, or what it ended for is over.
func (ns *nodeState) startsAnew() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.backoff.Reset()
	ns.startDue, ns.crashes = time.Time{}, nil
}

// crashProblem describes a server that keeps crashing, for operators; "" when it doesn't.
func (ns *nodeState) crashProblem(now time.Time) string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	recent := 0
	for _, c := range ns.crashes {
		if now.Sub(c) < crashWindow {
			recent++
		}
	}
	if recent < crashLimit {
		return ""
	}
	return fmt.Sprintf("the server exited %d times in %v: %s", recent, crashWindow, ns.lastWords)
}
