package host

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"steward/internal/cluster"
	"steward/internal/gateway"
	"steward/internal/netns"
	"steward/internal/platform/host/state"
	"steward/internal/process"
)

// Third parts of the addresses of databases' servers and of scratch ones on loopback.
const serversPart, scratchPart = 77, 79

// ServerNetworks are where servers listen for the gateway, and scratch servers for
// nobody: no one else has business there.
func ServerNetworks(own *netns.Network) []netip.Prefix {
	network := func(third byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 0, third, 0}), 24) }
	list := []netip.Prefix{network(serversPart), network(scratchPart)}
	if own != nil {
		list = append(list, own.Prefix())
	}
	return list
}

// listenAddress is where a node's server listens for the gateway.
func (d *Driver) listenAddress(ordinal, port int) netip.AddrPort {
	if d.o.Networks != nil {
		return netip.AddrPortFrom(d.o.Networks.Address(d.o.Networks.Number(port, ordinal)), uint16(port))
	}
	return loopbackAddress(ordinal, port)
}

func loopbackAddress(ordinal, port int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, serversPart, byte(1 + ordinal)}), uint16(port))
}

// scratchAddress is where a server listens that tries a backup of the cluster at the port.
func (d *Driver) scratchAddress(port int) netip.AddrPort {
	if d.o.Networks != nil {
		return d.listenAddress(scratchOrdinal, port)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, scratchPart, 1}), uint16(port))
}

// launchedAt is where a node's server listens, or did last.
func (d *Driver) launchedAt(rec *state.Node) netip.AddrPort {
	if rec.Launch != nil && rec.Launch.Listen.IsValid() {
		return rec.Launch.Listen
	}
	return d.listenAddress(rec.Ordinal, rec.Port)
}

// followerAddresses are where a cluster's replicas come from.
func (d *Driver) followerAddresses(port int) []netip.Addr {
	if d.o.Networks == nil {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	}
	list := make([]netip.Addr, state.MaxNodes)
	for ordinal := range list {
		list[ordinal] = d.listenAddress(ordinal, port).Addr()
	}
	return list
}

// inNetwork does something in the network of a node, which is made if it isn't there.
func (d *Driver) inNetwork(ctx context.Context, ordinal, port int, do func() error) error {
	if d.o.Networks == nil {
		return do()
	}
	if err := d.ensureNetwork(ctx, ordinal, port); err != nil {
		return err
	}
	return netns.Do(d.o.Networks.Path(d.o.Networks.Number(port, ordinal)), do)
}

// ensureNetwork makes a node's network, which reaches the nodes of its cluster.
func (d *Driver) ensureNetwork(ctx context.Context, ordinal, port int) error {
	if d.o.Networks == nil {
		return nil
	}
	n := netns.Node{Number: d.o.Networks.Number(port, ordinal), Port: port}
	if ordinal != scratchOrdinal {
		n.Outside = d.o.Internet
		for peer := range state.MaxNodes {
			if peer != ordinal {
				n.Peers = append(n.Peers, d.o.Networks.Number(port, peer))
			}
		}
	}
	return d.o.Networks.Ensure(ctx, n)
}

// removeNetworks takes away the networks of a cluster's nodes.
func (d *Driver) removeNetworks(ctx context.Context, port int, ordinals ...int) error {
	if d.o.Networks == nil || port == 0 {
		return nil
	}
	for _, ordinal := range ordinals {
		if err := d.o.Networks.Remove(ctx, d.o.Networks.Number(port, ordinal)); err != nil {
			return err
		}
	}
	return nil
}

// allOrdinals are those that a cluster may have networks of.
func allOrdinals() (list []int) {
	for ordinal := range scratchOrdinal + 1 {
		list = append(list, ordinal)
	}
	return list
}

// removeStrayNetworks takes away the networks that no cluster has. The numbers were
// looked for before the clusters, so that one that is being made is known.
func (d *Driver) removeStrayNetworks(ctx context.Context, numbers []int, rows []cluster.Cluster) error {
	left, err := d.networkNumbers() // after the clusters that no row has
	if err != nil {
		return err
	}
	for _, number := range numbers {
		owned := !slices.Contains(left, number)
		for _, c := range rows {
			owned = owned || d.o.Networks.SameCluster(number, c.Port) || c.PoolPort != 0 && d.o.Networks.SameCluster(number, c.PoolPort)
		}
		if owned {
			continue
		}
		d.log.Warn("removing a network that no database owns", "number", number)
		if err := d.o.Networks.Remove(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// networkNumbers are those of all networks there are.
func (d *Driver) networkNumbers() ([]int, error) {
	if d.o.Networks == nil {
		return nil, nil
	}
	return d.o.Networks.Numbers()
}

// Running counts the servers of a data folder that run.
type Running struct{ Networked, OnLoopback int }

// RunningServers looks for the servers of a data folder.
func RunningServers(dataDir string) (Running, error) {
	var r Running
	files, err := filepath.Glob(filepath.Join(layout{data: dataDir}.clusters(), "*", "node-*"))
	if err != nil || len(files) == 0 {
		return r, err
	}
	scope := scopeOf(dataDir)
	marked, err := process.Marked(scope + "/")
	if err != nil {
		return r, fmt.Errorf("look for servers: %w", err)
	}
	for _, dir := range files {
		rec, err := state.ReadNode(dir)
		if err != nil || rec == nil || len(marked[scope+"/"+nodeName(rec.Cluster, rec.Ordinal)]) == 0 {
			continue
		}
		if rec.Launch.Networked() {
			r.Networked++
		} else {
			r.OnLoopback++
		}
	}
	return r, nil
}

// adoptNetworks makes sure that the networks of servers that run are what they should be.
func (d *Driver) adoptNetworks() {
	if d.o.Networks == nil {
		return
	}
	records, err := d.records()
	if err != nil {
		d.log.Warn("look at servers' networks", "error", err)
	}
	for _, rec := range records {
		p := d.clusterState(rec.Cluster).node(rec.Ordinal).process()
		if p == nil || !rec.Launch.Networked() {
			continue
		}
		err := d.o.Networks.Keep(d.o.Networks.Number(rec.Port, rec.Ordinal), p.Pid())
		if err == nil {
			err = d.ensureNetwork(d.quit, rec.Ordinal, rec.Port)
		}
		if err != nil {
			d.log.Warn("a server's network isn't what it should be", "cluster_id", rec.Cluster, "node", rec.Ordinal, "error", err)
		}
	}
}

// ipv4 are those of a list that a server can see customers come from.
func ipv4(list []netip.Prefix) (kept []netip.Prefix) {
	for _, p := range list {
		if p = gateway.Unmapped(p); p.Addr().Is4() {
			kept = append(kept, p)
		}
	}
	return kept
}
