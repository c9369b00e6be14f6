package memplatform

import (
	"fmt"
	"net/netip"

	"steward/internal/cluster"
	"steward/internal/platform"
)

// look is what the world shows of a cluster.
func (d *Driver) look(id cluster.ID) platform.Observed {
	c, ok := d.world.Cluster(id)
	if !ok {
		return platform.Observed{}
	}
	seen := platform.Observed{
		Exists: true, Installation: c.Installation, ServerVersion: c.Version, ReadOnly: c.ReadOnly, Suspended: c.Suspended,
		Failovers: c.Failovers, LastFailover: c.LastFailover, FailoverReason: c.FailoverReason, LastChange: c.LastChange,
		SleepingSince: c.SleepingSince, WokenFor: c.WokenFor,
		Closed: !c.Routed || len(c.AllowList) == 0,
	}
	for i := range c.size() {
		n := c.node(i)
		seen.Nodes = append(seen.Nodes, n)
		if n.Problem == "" && c.serves() {
			seen.Healthy++
		}
	}
	seen.Serving = c.serves() && c.up(c.Primary)
	seen.Degraded = seen.Serving && seen.Healthy < c.size()
	seen.Settled = c.Suspended || seen.Serving && !seen.Degraded && c.Broken == ""
	if !c.Suspended {
		seen.Problem, seen.Permanent = c.Broken, c.Broken != ""
	}
	if c.Running {
		seen.UsedBytes = &c.UsedBytes
	}
	if c.Routed {
		seen.Hosts, seen.Members = cluster.Hosts{Primary: "127.0.0.1", Secondary: "127.0.0.2"}, c.members()
	}
	return seen
}

func (c Cluster) size() int { return max(c.Size, 1) }

// up reports whether a node's server runs.
func (c Cluster) up(ordinal int) bool { return c.Running && !c.Lost[ordinal] }

// serves reports whether nothing but lost nodes keeps the cluster from serving.
func (c Cluster) serves() bool { return c.Running && c.Bootstrapped && c.Routed }

func (c Cluster) node(ordinal int) platform.Node {
	n := platform.Node{
		Ordinal: ordinal, Role: cluster.Replica, Address: netip.AddrPortFrom(address(ordinal), uint16(c.Port)).String(),
		Running: c.up(ordinal), Restarts: c.Restarts, Started: c.Started, Version: c.Version,
	}
	if ordinal == c.Primary {
		n.Role = cluster.Primary
	}
	if n.Running {
		const apart = 1000
		n.Pid = int(c.ID) + ordinal*apart
		if n.Streaming = n.Role == cluster.Replica; n.Streaming {
			n.LagBytes = new(int64)
		}
	} else if !c.Suspended {
		n.Problem = fmt.Sprintf("the server of node %d isn't running", ordinal)
	}
	return n
}

func (c Cluster) members() map[string]string {
	members := map[string]string{}
	for i := range c.size() {
		members[address(i).String()] = "failover"
	}
	members[address(c.Primary).String()] = string(cluster.Primary)
	return members
}

func address(ordinal int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 77, byte(1 + ordinal)}) }
