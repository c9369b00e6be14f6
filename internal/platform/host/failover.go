package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/failpoint"
)

// ensurePrimary replaces or restarts the primary when its server has ended or
// hangs, or its data is gone.
func (p *pass) ensurePrimary(ctx context.Context) error {
	old, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	why := old.down()
	if why == "" {
		return nil
	}
	failpoint.Here("host: before fencing")
	// Whatever is left of it must not commit any more.
	if err := old.killAll(ctx); err != nil {
		return fmt.Errorf("fence node %d: %w", p.top.Primary, err)
	}
	failpoint.Here("host: after fencing")
	return p.replacePrimary(ctx, old, why)
}

// down says why the primary can't go on; "" when it can.
func (j *job) down() string {
	switch {
	case !j.d.hasData(j.node.Data):
		return "its data is gone"
	case !j.m.running():
		return "its server ended"
	case j.m.hangs():
		return "its server doesn't answer"
	}
	return ""
}

// replacePrimary decides who is the primary after the old one was fenced, and
// makes it so. Replicas that may know more than the others are waited for.
func (p *pass) replacePrimary(ctx context.Context, old *job, why string) error {
	const patience = 10 * time.Second
	began := time.Now()
	for {
		state, err := p.failoverState(ctx, old)
		if err != nil {
			return err
		}
		state.WaitExpired = time.Since(began) > patience
		decision := decide(state)
		p.d.log.Info("the primary is down", "cluster_id", p.want.ID, "node", p.top.Primary, "why", why, "action", string(decision.Action), "candidate", decision.Candidate)
		switch decision.Action {
		case actionRestart:
			return p.restartPrimary(ctx, old, state)
		case actionPromote:
			reason := fmt.Sprintf("Node %d is no longer the primary: %s. Node %d took over.", p.top.Primary, why, decision.Candidate)
			err := p.failover(ctx, old, decision, reason)
			if !errors.Is(err, engine.ErrUndrainable) {
				return err
			}
			old.m.setUndrainable()
			p.d.log.Warn("the dead primary's last writes can't be had from its files", "cluster_id", p.want.ID, "node", p.top.Primary, "error", err)
			continue
		case actionNone:
			return &obstacle{"no node has the cluster's data any more: a backup has to be restored"}
		}
		for _, ordinal := range p.top.replicas() {
			p.restartReplica(ctx, ordinal)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// failoverState asks all replicas for their replication status once they are disconnected.
func (p *pass) failoverState(ctx context.Context, old *job) (failoverState, error) {
	state := failoverState{
		HasData: p.d.hasData(old.node.Data), CanDrain: p.canDrain(old), RestartFailed: old.m.isUnstartable(),
		Synchronous: synchronous(p.want.Replication, p.want.Commit),
		Replicas:    make([]replicaState, len(p.top.replicas())),
	}
	var work sync.WaitGroup
	for i, ordinal := range p.top.replicas() {
		j, err := p.job(ctx, ordinal)
		if err != nil {
			return state, err
		}
		work.Go(func() { state.Replicas[i] = j.replicaState(ctx) })
	}
	work.Wait()
	// Who was asked after the end of ctx hasn't failed to answer.
	return state, ctx.Err()
}

// canDrain tells whether what the old primary wrote last may be had from its files.
func (p *pass) canDrain(old *job) bool { return p.eng.CanDrain(old.inst) && !old.m.isUndrainable() }

// synchronous tells whether acknowledged writes are on two nodes.
func synchronous(r cluster.Replication, c cluster.Commit) bool {
	return r == cluster.SemiSynch || c == cluster.CommitOn || c == cluster.CommitRemoteWrite || c == cluster.CommitRemoteApply
}

// candidate is the node as one that may take over.
func (j *job) replicaState(ctx context.Context) replicaState {
	c := replicaState{Ordinal: j.m.ordinal, HasData: j.rec != nil && j.rec.Bootstrapped && j.d.hasData(j.node.Data) && !j.m.isDiverged()}
	if !c.HasData || !j.m.running() {
		return c
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := j.eng.Disconnect(ctx, j.node); err != nil {
		j.d.log.Warn("replica doesn't let go of the old primary", "cluster_id", j.want.ID, "node", c.Ordinal, "error", err)
		return c
	}
	s, err := j.standing(ctx)
	if err != nil {
		j.d.log.Warn("replica doesn't say how it stands", "cluster_id", j.want.ID, "node", c.Ordinal, "error", err)
		return c
	}
	c.Answers, c.Received = true, s.Received
	return c
}

// restartPrimary starts the server again on its own data. While others could
// take over it isn't waited for as long.
func (p *pass) restartPrimary(ctx context.Context, old *job, s failoverState) error {
	patience := passTime
	if slices.ContainsFunc(s.Replicas, func(c replicaState) bool { return c.HasData && c.Answers }) {
		patience = 20 * time.Second
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.restarts = true
	if err := p.node(short, p.top.Primary); err != nil {
		old.m.markUnstartable()
		return fmt.Errorf("start the primary again: %w", err)
	}
	for _, ordinal := range p.top.replicas() {
		p.u.member(ordinal).forgive()
	}
	return nil
}

// failover makes the candidate the primary: it gets the old primary's last writes, then
// the topology names it, and only then does it take writes.
func (p *pass) failover(ctx context.Context, old *job, decision decision, reason string) error {
	if decision.MayLose {
		reason += " Writes that were acknowledged in the last moments may be missing."
	}
	if p.d.hasData(old.node.Data) && p.canDrain(old) {
		candidate, err := p.job(ctx, decision.Candidate)
		if err != nil {
			return err
		}
		failpoint.Here("host: before drain")
		if err := p.eng.Drain(ctx, old.node, candidate.node); err != nil {
			return fmt.Errorf("drain node %d to node %d: %w", p.top.Primary, decision.Candidate, err)
		}
		failpoint.Here("host: after drain")
	}
	top := p.top
	top.Primary, top.Failovers, top.Last, top.Reason = decision.Candidate, top.Failovers+1, p.d.o.Now().UTC(), reason
	if err := p.d.saveTopology(p.want.ID, top); err != nil {
		return err
	}
	p.top = top
	failpoint.Here("host: new primary recorded")
	p.d.log.Warn("the primary changes", "cluster_id", p.want.ID, "reason", reason)
	return p.promote(ctx)
}

// promote makes the topology's primary take writes and the running replicas follow
// it, all at the same time.
func (p *pass) promote(ctx context.Context) error {
	var work sync.WaitGroup
	for _, ordinal := range p.top.replicas() {
		if m := p.u.member(ordinal); m.running() {
			work.Go(func() {
				if err := p.repoint(ctx, ordinal); err != nil {
					p.d.log.Warn("replica doesn't follow the new primary yet", "cluster_id", p.want.ID, "node", ordinal, "error", err)
				}
			})
		}
	}
	defer work.Wait()
	j, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	if err := j.writeFiles(); err != nil {
		return err
	}
	if err := j.take(ctx, stepRole); err != nil {
		return err
	}
	if _, err := j.standing(ctx); err != nil {
		return err
	}
	if j.rec != nil {
		// What a replica has of fences may be its primary's, which an older steward made.
		j.rec.Loaded, j.rec.Fenced = j.digest, 0
		if err := j.save(false); err != nil {
			return err
		}
	}
	if err := j.setRoute(ctx); err != nil {
		return err
	}
	p.d.tellStandings(p.u)
	p.d.change(p.want.ID)
	return nil
}

// repoint makes a running replica follow the current primary.
func (p *pass) repoint(ctx context.Context, ordinal int) error {
	j, err := p.job(ctx, ordinal)
	if err != nil {
		return err
	}
	if err := j.writeFiles(); err != nil {
		return err
	}
	if err := j.takeRole(ctx); err != nil {
		return err
	}
	j.m.forgive()
	j.rec.Loaded = j.digest
	return j.save(false)
}

// restartReplica starts a replica's server as it was last started, so that it can
// report its replication status.
func (p *pass) restartReplica(ctx context.Context, ordinal int) {
	m := p.u.member(ordinal)
	rec, err := readRecord(p.d.layout.node(p.want.ID, ordinal))
	if err != nil || rec == nil || rec.Launch == nil || m.running() {
		return
	}
	if err := p.d.relaunch(ctx, p.u, m, rec); err != nil {
		p.d.log.Warn("replica can't be started", "cluster_id", p.want.ID, "node", ordinal, "error", err)
	}
}

// switchover moves the primary role to a replica on purpose. No acknowledged write
// is lost: the old primary has stopped or is read-only before the candidate takes
// writes, and the candidate has everything by then.
func (p *pass) switchover(ctx context.Context, candidate *job, why string) error {
	old, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("Node %d handed its role over to node %d for %s.", p.top.Primary, candidate.m.ordinal, why)
	failpoint.Here("host: before switchover")
	if p.eng.CanDrain(old.inst) {
		err = old.stop(ctx) // its last writes are drained from its files
	} else {
		err = p.demote(ctx, old, candidate)
	}
	if err != nil {
		return err
	}
	failpoint.Here("host: old primary has stopped writing")
	if err := p.disconnectAll(ctx); err != nil {
		return err
	}
	return p.failover(ctx, old, decision{Action: actionPromote, Candidate: candidate.m.ordinal}, reason)
}

// switchoverCandidate returns the furthest of the replicas that follow closely.
func (p *pass) switchoverCandidate(ctx context.Context) (*job, error) {
	var best *job
	var most uint64
	var problems []string
	for _, ordinal := range p.top.replicas() {
		j, err := p.job(ctx, ordinal)
		if err != nil {
			return nil, err
		}
		s, err := j.standing(ctx)
		switch {
		case err != nil:
			problems = append(problems, err.Error())
		case !s.Streaming || s.Lag > maxLag:
			problems = append(problems, fmt.Sprintf("node %d doesn't follow closely: %s", ordinal, s.Problem))
		case best == nil || s.Applied > most:
			best, most = j, s.Applied
		}
	}
	if best == nil {
		return nil, errors.New("no replica can take over now: " + strings.Join(problems, "; "))
	}
	return best, nil
}

// demote makes the primary read-only and waits until the candidate has everything.
// The gateway holds new connections meanwhile. When that takes too long, the
// primary takes writes again.
func (p *pass) demote(ctx context.Context, old, candidate *job) error {
	const patience = 20 * time.Second
	held := old.route
	held.Primary = netip.AddrPort{} // held, until there is one
	if err := p.d.o.Gateway.Set(ctx, held); err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := p.eng.StepDown(short, old.node)
	if err == nil {
		err = caughtUp(short, old, candidate)
	}
	if err == nil {
		return nil
	}
	undo, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	return errors.Join(err, p.eng.Promote(undo, old.node), old.setRoute(undo))
}

// caughtUp waits until the candidate has all that the old primary has.
func caughtUp(ctx context.Context, old, candidate *job) error {
	return reaches(ctx, old, candidate, func(s engine.Standing) uint64 { return s.Received })
}

// applied waits until a replica has not only got but applied what the primary has now.
func applied(ctx context.Context, primary, replica *job) error {
	return reaches(ctx, primary, replica, func(s engine.Standing) uint64 { return s.Applied })
}

// reaches waits until a node is as far as another one is now.
func reaches(ctx context.Context, other, node *job, far func(engine.Standing) uint64) error {
	last, err := other.standing(ctx)
	if err != nil {
		return err
	}
	for {
		s, err := node.standing(ctx)
		if err == nil && far(s) >= last.Received {
			return nil
		}
		if sleep(ctx, 2*time.Millisecond) != nil {
			return fmt.Errorf("node %d doesn't catch up: %s of %s", node.m.ordinal, s.Position, last.Position)
		}
	}
}

func (p *pass) disconnectAll(ctx context.Context) error {
	for _, ordinal := range p.top.replicas() {
		j, err := p.job(ctx, ordinal)
		if err != nil {
			return err
		}
		if !j.m.running() {
			continue
		}
		if err := p.eng.Disconnect(ctx, j.node); err != nil && !errors.Is(err, engine.ErrStarting) {
			return fmt.Errorf("disconnect node %d: %w", ordinal, err)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
