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

// havePrimary sees to it that the node that is to take writes can: when its
// server has ended or hangs, or its data is gone, another takes over, or it is
// started again.
func (p *pass) havePrimary(ctx context.Context) error {
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
		situation, err := p.plight(ctx, old)
		if err != nil {
			return err
		}
		situation.Waited = time.Since(began) > patience
		v := elect(situation)
		p.d.log.Info("the primary is down", "cluster_id", p.want.ID, "node", p.top.Primary, "why", why, "remedy", string(v.Remedy), "candidate", v.Heir)
		switch v.Remedy {
		case remedyRestart:
			return p.restartPrimary(ctx, old, situation)
		case remedyPromote:
			reason := fmt.Sprintf("Node %d is no longer the primary: %s. Node %d took over.", p.top.Primary, why, v.Heir)
			err := p.handOver(ctx, old, v, reason)
			if !errors.Is(err, engine.ErrUndrainable) {
				return err
			}
			old.m.setUndrainable()
			p.d.log.Warn("the dead primary's last writes can't be had from its files", "cluster_id", p.want.ID, "node", p.top.Primary, "error", err)
			continue
		case remedyNone:
			return &obstacle{"no node has the cluster's data any more: a backup has to be restored"}
		}
		for _, ordinal := range p.top.replicas() {
			p.revive(ctx, ordinal)
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// plight asks all replicas how they stand, once none receives anything any more.
func (p *pass) plight(ctx context.Context, old *job) (plight, error) {
	situation := plight{
		Files: p.d.hasData(old.node.Data), CanDrain: p.canDrain(old), Tried: old.m.startsInVain(),
		Synchronous: synchronous(p.want.Replication, p.want.Commit),
		Replicas:    make([]candidate, len(p.top.replicas())),
	}
	var work sync.WaitGroup
	for i, ordinal := range p.top.replicas() {
		j, err := p.job(ctx, ordinal)
		if err != nil {
			return situation, err
		}
		work.Go(func() { situation.Replicas[i] = j.candidate(ctx) })
	}
	work.Wait()
	// Who was asked after the end of ctx hasn't failed to answer.
	return situation, ctx.Err()
}

// canDrain tells whether what the old primary wrote last may be had from its files.
func (p *pass) canDrain(old *job) bool { return p.eng.CanDrain(old.inst) && !old.m.isUndrainable() }

// synchronous tells whether acknowledged writes are on two nodes.
func synchronous(r cluster.Replication, c cluster.Commit) bool {
	return r == cluster.SemiSynch || c == cluster.CommitOn || c == cluster.CommitRemoteWrite || c == cluster.CommitRemoteApply
}

// candidate is the node as one that may take over.
func (j *job) candidate(ctx context.Context) candidate {
	c := candidate{Ordinal: j.m.ordinal, Whole: j.rec != nil && j.rec.Bootstrapped && j.d.hasData(j.node.Data) && !j.m.isDiverged()}
	if !c.Whole || !j.m.running() {
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
func (p *pass) restartPrimary(ctx context.Context, old *job, s plight) error {
	patience := passTime
	if slices.ContainsFunc(s.Replicas, func(c candidate) bool { return c.Whole && c.Answers }) {
		patience = 20 * time.Second
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.restarts = true
	if err := p.node(short, p.top.Primary); err != nil {
		old.m.startedInVain()
		return fmt.Errorf("start the primary again: %w", err)
	}
	for _, ordinal := range p.top.replicas() {
		p.u.member(ordinal).forgive()
	}
	return nil
}

// handOver makes the candidate the primary: it gets what the old one wrote last, the
// record says so, and only then it takes writes.
func (p *pass) handOver(ctx context.Context, old *job, v verdict, reason string) error {
	if v.MayLose {
		reason += " Writes that were acknowledged in the last moments may be missing."
	}
	if p.d.hasData(old.node.Data) && p.canDrain(old) {
		candidate, err := p.job(ctx, v.Heir)
		if err != nil {
			return err
		}
		failpoint.Here("host: before drain")
		if err := p.eng.Drain(ctx, old.node, candidate.node); err != nil {
			return fmt.Errorf("drain node %d to node %d: %w", p.top.Primary, v.Heir, err)
		}
		failpoint.Here("host: after drain")
	}
	top := p.top
	top.Primary, top.Failovers, top.Last, top.Reason = v.Heir, top.Failovers+1, p.d.o.Now().UTC(), reason
	if err := p.d.saveTopology(p.want.ID, top); err != nil {
		return err
	}
	p.top = top
	failpoint.Here("host: new primary recorded")
	p.d.log.Warn("the primary changes", "cluster_id", p.want.ID, "reason", reason)
	return p.enthrone(ctx)
}

// enthrone has the node that is to be the primary take the writes, and those
// that run follow it, all at the same time.
func (p *pass) enthrone(ctx context.Context) error {
	var work sync.WaitGroup
	for _, ordinal := range p.top.replicas() {
		if m := p.u.member(ordinal); m.running() {
			work.Go(func() {
				if err := p.turnTo(ctx, ordinal); err != nil {
					p.d.log.Warn("replica doesn't turn to the new primary yet", "cluster_id", p.want.ID, "node", ordinal, "error", err)
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

// turnTo has a running replica follow another primary.
func (p *pass) turnTo(ctx context.Context, ordinal int) error {
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

// revive starts a replica's server the way it was last started, so that it can
// say what it knows.
func (p *pass) revive(ctx context.Context, ordinal int) {
	m := p.u.member(ordinal)
	rec, err := readRecord(p.d.layout.node(p.want.ID, ordinal))
	if err != nil || rec == nil || rec.Launch == nil || m.running() {
		return
	}
	if err := p.d.relaunch(ctx, p.u, m, rec); err != nil {
		p.d.log.Warn("replica can't be started", "cluster_id", p.want.ID, "node", ordinal, "error", err)
	}
}

// switchOver moves the primary's role to a replica on purpose. No acknowledged
// write is lost: the old primary has ended, or takes no writes, before the candidate
// begins, and the candidate has everything by then.
func (p *pass) switchOver(ctx context.Context, candidate *job, why string) error {
	old, err := p.job(ctx, p.top.Primary)
	if err != nil {
		return err
	}
	reason := fmt.Sprintf("Node %d handed its role over to node %d for %s.", p.top.Primary, candidate.m.ordinal, why)
	failpoint.Here("host: before switchover")
	if p.eng.CanDrain(old.inst) {
		err = p.retire(ctx, old)
	} else {
		err = p.relieve(ctx, old, candidate)
	}
	if err != nil {
		return err
	}
	failpoint.Here("host: old primary has stopped writing")
	if err := p.disconnectAll(ctx); err != nil {
		return err
	}
	return p.handOver(ctx, old, verdict{Remedy: remedyPromote, Heir: candidate.m.ordinal}, reason)
}

// successor is the replica to hand over to: the one that is furthest of those
// that follow closely.
func (p *pass) successor(ctx context.Context) (*job, error) {
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

// retire stops the primary's server cleanly. What it wrote last is taken from
// its files.
func (p *pass) retire(ctx context.Context, old *job) error {
	return old.stop(ctx)
}

// relieve has the primary take no more writes and waits until the candidate has
// everything. New connections are held meanwhile. When that takes too long the
// primary goes on.
func (p *pass) relieve(ctx context.Context, old, candidate *job) error {
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
	return reaches(ctx, old, candidate, func(s engine.ReplicationStatus) uint64 { return s.Received })
}

// applied waits until a replica has not only got but applied what the primary has now.
func applied(ctx context.Context, primary, replica *job) error {
	return reaches(ctx, primary, replica, func(s engine.ReplicationStatus) uint64 { return s.Applied })
}

// reaches waits until a node is as far as another one is now.
func reaches(ctx context.Context, other, node *job, far func(engine.ReplicationStatus) uint64) error {
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
