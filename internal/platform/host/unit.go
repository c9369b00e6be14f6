package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// unit is a cluster as this process knows it. Nothing in it has to survive.
type unit struct {
	id cluster.ID
	// turn is held by whoever changes the cluster: Apply, Remove, a restart.
	turn chan struct{}

	mu      sync.Mutex
	members map[int]*member
	// problem is what Apply found to stand in the way.
	problem   string
	permanent bool
	// interrupt ends the pass under way, which may wait for a server that hangs.
	interrupt context.CancelFunc
	// urgent counts those who take the turn first.
	urgent int
	// recovery is how the last one went.
	recovery recoveryAttempts
	// secrets are those that are remembered; nil for one that isn't there.
	secrets map[platform.SecretName][]byte
	// vigil tells that somebody watches over the primary.
	vigil bool
	// seed is a copy of the primary's data that is being made.
	seed *seed
}

func newUnit(id cluster.ID) *unit {
	return &unit{id: id, turn: make(chan struct{}, 1), members: map[int]*member{}, secrets: map[platform.SecretName][]byte{}}
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

// occupy waits for the unit's turn. The context that it returns ends when whoever
// has the turn is to make way: all steps can be repeated.
func (u *unit) occupy(ctx context.Context) (occupied context.Context, give func(), err error) {
	if err := u.take(ctx); err != nil {
		return nil, nil, err
	}
	occupied, give = u.occupied(ctx)
	return occupied, give, nil
}

// tryOccupy is occupy that doesn't wait; false when somebody has the turn.
func (u *unit) tryOccupy(ctx context.Context) (occupied context.Context, give func(), ok bool) {
	select {
	case u.turn <- struct{}{}:
	default:
		return nil, nil, false
	}
	occupied, give = u.occupied(ctx)
	return occupied, give, true
}

// occupyFirst is occupy before all others: those who have the turn, or get it
// meanwhile, make way.
func (u *unit) occupyFirst(ctx context.Context) (occupied context.Context, give func(), err error) {
	u.mu.Lock()
	u.urgent++
	if u.interrupt != nil {
		u.interrupt()
	}
	u.mu.Unlock()
	err = u.take(ctx)
	u.mu.Lock()
	u.urgent--
	u.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	occupied, give = u.occupied(ctx)
	return occupied, give, nil
}

func (u *unit) occupied(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.interrupt = cancel
	if u.urgent > 0 {
		cancel()
	}
	return ctx, func() { cancel(); u.give() }
}

// member is the node of an ordinal.
func (u *unit) member(ordinal int) *member {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.members[ordinal]
	if m == nil {
		m = &member{id: u.id, ordinal: ordinal}
		u.members[ordinal] = m
	}
	return m
}

// dismiss forgets a node that was removed.
func (u *unit) dismiss(ordinal int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.members, ordinal)
}

// ordinals are those of the members known so far, sorted.
func (u *unit) ordinals() []int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.members))
}

func (u *unit) remember(name platform.SecretName, value []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.secrets[name] = value
}

// forgetSecrets is for clusters that were removed.
func (u *unit) forgetSecrets() {
	u.mu.Lock()
	defer u.mu.Unlock()
	clear(u.secrets)
}

func (u *unit) setProblem(problem string, permanent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.problem, u.permanent = problem, permanent
}

// trouble is the problem that Apply met last.
func (u *unit) trouble() (problem string, permanent bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.problem, u.permanent
}
