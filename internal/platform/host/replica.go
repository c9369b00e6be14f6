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
func (nr *nodeReconciler) standing(ctx context.Context) (engine.Standing, error) {
	return askStanding(ctx, nr.d, nr.ns, nr.eng, nr.node)
}

func askStanding(ctx context.Context, d *Driver, ns *nodeState, eng engine.Driver, n engine.Node) (engine.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s, err := eng.Standing(ctx, n)
	if err != nil {
		ns.stands(engine.Standing{Problem: err.Error()}, d.o.Now())
		return s, fmt.Errorf("ask node %d how it stands: %w", n.Ordinal, err)
	}
	ns.stands(s, d.o.Now())
	return s, nil
}

// stands remembers how a node stands, and since when a replica hasn't followed.
func (ns *nodeState) stands(s engine.Standing, now time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	before := ns.mayRead()
	ns.standing, ns.stood = s, now
	ns.rerouted = ns.rerouted || before != ns.mayRead()
	switch {
	case s.Streaming || s.Writable:
		ns.astray = time.Time{}
	case ns.astray.IsZero():
		ns.astray = now
	}
}

// lastStanding is how the node stood when it was last asked, and when that was.
func (ns *nodeState) lastStanding() (engine.Standing, time.Time) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.standing, ns.stood
}

// prepareReplica makes the fresh clone one that can follow the primary.
func (nr *nodeReconciler) prepareReplica(ctx context.Context) error {
	primary := nr.d.engineNode(nr.want, nr.inst, nr.top, nr.top.Primary)
	return nr.eng.Twin(ctx, primary.Data, nr.node.Data)
}

// takeRole has a running server follow the primary, or be it.
func (nr *nodeReconciler) takeRole(ctx context.Context) error {
	if nr.node.Role == cluster.Primary {
		return nr.eng.Promote(ctx, nr.node)
	}
	err := nr.eng.Follow(ctx, nr.node)
	if errors.Is(err, engine.ErrDiverged) {
		nr.ns.setDiverged(true)
		return nil // it is given a new copy
	}
	return err
}

func (ns *nodeState) setDiverged(diverged bool) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.diverged, ns.difference = diverged, ""
}

// maxLag is how far behind a replica may be that reads are sent to.
const maxLag = 10 * time.Second

// readable reports whether reads may be sent to a replica.
func (ns *nodeState) readable() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	return ns.mayRead()
}

// takeRerouted reports, once, whether what may be sent to the node has changed.
func (ns *nodeState) takeRerouted() bool {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	was := ns.rerouted
	ns.rerouted = false
	return was
}

func (ns *nodeState) mayRead() bool {
	return ns.proc != nil && ns.proc.Running() && ns.standing.Streaming && ns.standing.Lag <= maxLag
}

// forgive forgets for how long the node hasn't followed: there was nobody to
// follow.
func (ns *nodeState) forgive() {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.astray = time.Time{}
}

// hopeless says why a replica won't follow again without a new copy of the
// data; "" while it may.
func (ns *nodeState) hopeless(now time.Time) string {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	const patience = 20 * time.Second
	running := ns.proc != nil && ns.proc.Running()
	switch {
	case ns.difference != "":
		return ns.difference
	case ns.diverged:
		return "its data has gone another way than the primary's"
	case !running && ns.failedStarts >= maxFailedStarts:
		return "its server doesn't start: " + ns.lastWords
	case running && !ns.astray.IsZero() && now.Sub(ns.astray) > patience:
		return "it doesn't follow the primary: " + ns.standing.Problem
	}
	return ""
}
