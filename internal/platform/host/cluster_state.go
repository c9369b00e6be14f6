package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/platform"
	"steward/internal/process"
)

// clusterState is what this process knows of a cluster. Nothing in it has to survive a
// restart.
type clusterState struct {
	id cluster.ID
	// held is full while somebody holds the lock to change the cluster.
	held chan struct{}

	mu    sync.Mutex
	nodes map[int]*nodeState
	// problem is what Apply found to stand in the way.
	problem   string
	permanent bool
	// interrupt cancels the context of the lock's holder, who may wait for a server that
	// hangs.
	interrupt context.CancelFunc
	// urgent counts the callers of preempt that wait.
	urgent int
	// recovery counts failed recoveries.
	recovery recoveryAttempts
	// secrets are the cached ones; nil for one that isn't there.
	secrets map[platform.SecretName][]byte
	// monitored reports whether a health monitor runs.
	monitored bool
	// resting is when the cluster falls asleep, or that it does.
	resting rest
	// found is what needn't be looked for again as long as it sleeps.
	found asleepFindings
	// archivedAt is when all was in the archive that was finished; zero until it is first asked for.
	archivedAt time.Time
	// pooler is the process of the cluster's connection pools.
	pooler poolerState
	// baseBackup is a copy of the primary's data that is being made.
	baseBackup *baseBackup
}

func newClusterState(id cluster.ID) *clusterState {
	return &clusterState{id: id, held: make(chan struct{}, 1), nodes: map[int]*nodeState{}, secrets: map[platform.SecretName][]byte{}}
}

// lock waits for the cluster's lock.
func (cs *clusterState) lock(ctx context.Context) error {
	select {
	case cs.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other work on cluster %d: %w", cs.id, ctx.Err())
	}
}

func (cs *clusterState) unlock() { <-cs.held }

// acquire waits for the cluster's lock. The context that it returns ends when somebody
// preempts the holder: all steps can be repeated.
func (cs *clusterState) acquire(ctx context.Context) (locked context.Context, unlock func(), err error) {
	if err := cs.lock(ctx); err != nil {
		return nil, nil, err
	}
	locked, unlock = cs.acquired(ctx)
	return locked, unlock, nil
}

// tryAcquire is acquire without waiting; ok is false when the lock is held.
func (cs *clusterState) tryAcquire(ctx context.Context) (locked context.Context, unlock func(), ok bool) {
	select {
	case cs.held <- struct{}{}:
	default:
		return nil, nil, false
	}
	locked, unlock = cs.acquired(ctx)
	return locked, unlock, true
}

// preempt is acquire before all others: it cancels the contexts of whoever holds the
// lock or gets it meanwhile.
func (cs *clusterState) preempt(ctx context.Context) (locked context.Context, unlock func(), err error) {
	cs.mu.Lock()
	cs.urgent++
	if cs.interrupt != nil {
		cs.interrupt()
	}
	cs.mu.Unlock()
	err = cs.lock(ctx)
	cs.mu.Lock()
	cs.urgent--
	cs.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	locked, unlock = cs.acquired(ctx)
	return locked, unlock, nil
}

func (cs *clusterState) acquired(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.interrupt = cancel
	if cs.urgent > 0 {
		cancel()
	}
	return ctx, func() { cancel(); cs.unlock() }
}

// node returns the state of the node with an ordinal.
func (cs *clusterState) node(ordinal int) *nodeState {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	ns := cs.nodes[ordinal]
	if ns == nil {
		ns = &nodeState{
			id: cs.id, ordinal: ordinal, backoff: process.Backoff{First: 50 * time.Millisecond, Longest: 30 * time.Second},
			inspecting: make(chan struct{}, 1), shaping: make(chan struct{}, 1), readingLog: make(chan struct{}, 1),
		}
		cs.nodes[ordinal] = ns
	}
	return ns
}

// forgetNode drops the state of a node that was removed.
func (cs *clusterState) forgetNode(ordinal int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.nodes, ordinal)
}

// ordinals returns those of the nodes known so far, sorted.
func (cs *clusterState) ordinals() []int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Sorted(maps.Keys(cs.nodes))
}

func (cs *clusterState) cacheSecret(name platform.SecretName, value []byte) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.secrets[name] = value
}

// forgetSecrets is for clusters that were removed.
func (cs *clusterState) forgetSecrets() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	clear(cs.secrets)
}

func (cs *clusterState) setProblem(problem string, permanent bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.problem, cs.permanent = problem, permanent
}

// lastProblem returns the problem that Apply met last.
func (cs *clusterState) lastProblem() (problem string, permanent bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.problem, cs.permanent
}
