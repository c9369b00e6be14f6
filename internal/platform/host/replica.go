package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
)

// keyringName is the secret that holds a node's keyring: each server has its own.
func keyringName(ordinal int) platform.SecretName {
	if ordinal == 0 {
		return platform.Keyring
	}
	return platform.SecretName(fmt.Sprintf("%s_%d", platform.Keyring, ordinal))
}

// standingFresh is how long an answered standing counts.
const standingFresh = 2 * time.Second

// standing asks the node's server and remembers the answer.
func (j *job) standing(ctx context.Context) (engine.ReplicationStatus, error) {
	return askStanding(ctx, j.d, j.m, j.eng, j.node)
}

func askStanding(ctx context.Context, d *Driver, m *member, eng engine.Driver, n engine.Node) (engine.ReplicationStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := eng.ReplicationStatus(ctx, n)
	if err != nil {
		m.stands(engine.ReplicationStatus{Problem: err.Error()}, d.o.Now())
		return s, fmt.Errorf("ask node %d how it stands: %w", n.Ordinal, err)
	}
	m.stands(s, d.o.Now())
	return s, nil
}

// stands remembers how a node stands, and since when a replica hasn't followed.
func (m *member) stands(s engine.ReplicationStatus, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.mayRead()
	m.standing, m.stood = s, now
	m.rerouted = m.rerouted || before != m.mayRead()
	switch {
	case s.Streaming || s.Writable:
		m.astray = time.Time{}
	case m.astray.IsZero():
		m.astray = now
	}
}

// lastStanding is how the node stood when it was last asked, and when that was.
func (m *member) lastStanding() (engine.ReplicationStatus, time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standing, m.stood
}

// prepareReplica makes the fresh clone one that can follow the primary.
func (j *job) prepareReplica(ctx context.Context) error {
	primary := j.d.bareNode(j.want, j.inst, j.top, j.top.Primary)
	return j.eng.PrepareReplica(ctx, primary.Data, j.node.Data)
}

// takeRole has a running server follow the primary, or be it.
func (j *job) takeRole(ctx context.Context) error {
	if j.node.Role == cluster.Primary {
		return j.eng.Promote(ctx, j.node)
	}
	err := j.eng.Follow(ctx, j.node)
	if errors.Is(err, engine.ErrDiverged) {
		j.m.setDiverged(true)
		return nil // it is given a new copy
	}
	return err
}

func (m *member) setDiverged(diverged bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.diverged, m.difference = diverged, ""
}

// maxLag is how far behind a replica may be that reads are sent to.
const maxLag = 10 * time.Second

// readable tells whether reads may be sent to a replica.
func (m *member) readable() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mayRead()
}

// takeRerouted reports, once, whether what may be sent to the node has changed.
func (m *member) takeRerouted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.rerouted
	m.rerouted = false
	return was
}

func (m *member) mayRead() bool {
	return m.proc != nil && m.proc.Running() && m.standing.Streaming && m.standing.Lag <= maxLag
}

// forgive forgets for how long the node hasn't followed: there was nobody to
// follow.
func (m *member) forgive() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.astray = time.Time{}
}

// hopeless says why a replica won't follow again without a new copy of the
// data; "" while it may.
func (m *member) hopeless(now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	const patience = 20 * time.Second
	running := m.proc != nil && m.proc.Running()
	switch {
	case m.difference != "":
		return m.difference
	case m.diverged:
		return "its data has gone another way than the primary's"
	case !running && m.failedStarts >= startChances:
		return "its server doesn't start: " + m.lastWords
	case running && !m.astray.IsZero() && now.Sub(m.astray) > patience:
		return "it doesn't follow the primary: " + m.standing.Problem
	}
	return ""
}
