package host

import (
	"context"
	"errors"
	"fmt"
	"os"

	"steward/internal/cluster"
	"steward/internal/failpoint"
)

// aim says what the cluster is to be when the pass begins. Its size changes in two
// moves: nodes that come are waited for by no commit before they follow, and
// others go only when the first node is the primary.
func (p *pass) aim(now topology) (topology, error) {
	size := max(1, p.want.Size)
	top := now
	top.Suspended = p.want.Suspended
	switch {
	case p.want.Suspended: // nobody comes or goes meanwhile
		return top, nil
	case size == 1 && now.Members > 1 && now.Primary != 0:
		p.want.Replication = now.Replication // until the role has been handed over
		return top, nil
	case size > 1 && now.Members == 1:
		born, err := p.d.born(p.want.ID, now)
		if err != nil {
			return now, err
		}
		top.Growing = born
	case size == 1:
		top.Growing = false
	}
	top.Members = size
	if top.Growing {
		p.want.Replication, p.want.Commit = cluster.Asynch, alone(p.want.Commit)
	}
	if top.Members > 1 {
		top.Replication = p.want.Replication
	}
	return top, nil
}

// alone is a commit that waits for no other node.
func alone(c cluster.Commit) cluster.Commit {
	if c == "" || c == cluster.CommitOff {
		return c
	}
	return cluster.CommitLocal
}

// shrinks reports whether nodes have to go, and which isn't the primary's turn yet.
func (p *pass) shrinks() bool { return p.top.Members > max(1, p.asked.Size) }

// grow gives the new nodes their copies while the first goes on by itself. Once
// they follow, commits wait for them as was asked for.
func (p *pass) grow(ctx context.Context) error {
	if err := errors.Join(p.node(ctx, p.top.Primary), p.roll(ctx), p.setRoute(ctx)); err != nil {
		return err
	}
	if err := p.awaitReplicas(ctx); err != nil {
		return err
	}
	top := p.top
	top.Growing = false
	if err := p.d.saveTopology(p.want.ID, top); err != nil {
		return err
	}
	failpoint.Here("host: members have come")
	return p.again(ctx)
}

// shrink makes the first node the primary, so that the others can go.
func (p *pass) shrink(ctx context.Context) error {
	if p.top.Primary == 0 { // a failover has made it that meanwhile
		return p.again(ctx)
	}
	if err := p.replica(ctx, 0); err != nil {
		return err
	}
	first, err := p.job(ctx, 0)
	if err != nil {
		return err
	}
	if err := p.switchover(ctx, first, "a smaller cluster"); err != nil {
		return fmt.Errorf("switch over: %w", err)
	}
	failpoint.Here("host: the first node is the primary")
	return p.again(ctx)
}

// again runs a pass for what was asked for, now that one has made it possible.
func (p *pass) again(ctx context.Context) error {
	next, err := p.d.newPass(p.u, p.asked)
	if err != nil {
		return err
	}
	err = next.run(ctx)
	p.top = next.top
	return err
}

// removeOthers takes away the nodes beyond the only one: it takes the writes, and
// waits for nobody any more.
func (p *pass) removeOthers(ctx context.Context) error {
	for ordinal := 1; ordinal < maxNodes; ordinal++ {
		if !exists(p.d.layout.node(p.want.ID, ordinal)) {
			continue
		}
		if err := p.removeNode(ctx, ordinal); err != nil {
			return fmt.Errorf("remove node %d: %w", ordinal, err)
		}
	}
	return nil
}

func (p *pass) removeNode(ctx context.Context, ordinal int) error {
	failpoint.Here("host: before removing a node")
	d, id := p.d, p.want.ID
	if err := d.removeProcesses(ctx, p.u.member(ordinal), p.want.Port); err != nil {
		return err
	}
	for _, dir := range []string{d.layout.keysNode(id, ordinal), d.layout.runNode(id, ordinal)} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove folder: %w", err)
		}
	}
	if err := d.trash.put(d.layout.node(id, ordinal)); err != nil {
		return err
	}
	failpoint.Here("host: after removing a node")
	p.u.dismiss(ordinal)
	return nil
}
