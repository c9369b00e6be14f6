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
	// secrets are those that never change.
	secrets map[platform.SecretName][]byte
	// vigil tells that somebody watches over the primary.
	vigil bool
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

// interruptible is a context that ends when the pass is to make way.
func (u *unit) interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.interrupt = cancel
	return ctx, cancel
}

// makeWay ends the pass under way. All its steps can be repeated.
func (u *unit) makeWay() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.interrupt != nil {
		u.interrupt()
	}
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

// ordinals are those of the members known so far, sorted.
func (u *unit) ordinals() []int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.members))
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
