// Package netns gives every server of a database a network of its own: a network
// namespace, joined to the machine by a pair of virtual links.
//
// A node has one address, which follows from its number, in a private network that
// collides with nothing on the machine. It reaches the other nodes of its cluster, on
// the cluster's port, and nothing else: neither other clusters, nor services of the machine, nor, unless its
// [Node] says so, the world outside. It is reached by what the gateway leads to it,
// by the nodes of its cluster, and by root on the machine. Rules in a table of our own see to it
// ("steward-network-…"), of which package nft keeps the content; while the rules are missing, addresses that
// are routed nowhere but here still keep strangers from outside of the machine's own networks away.
//
// All names follow from the number and the data folder. Namespaces, links and rules live on when
// steward ends; [Network.Ensure] looks first and makes only what is missing, so a later
// steward adopts them with it. What a reboot takes, it makes anew. [Network.Numbers] tells what there is, for whoever looks
// for orphans, and [Network.Remove] leaves nothing of a node.
//
// # Starting a server in it
//
// A process is born into the network namespace of the thread that forks it, so package process needs nothing
// new: whoever starts a server calls it inside of [Do].
//
//	err = netns.Do(networks.Path(number), func() (err error) {
//		server, err = process.Start(spec)
//		return err
//	})
//
// Bubblewrap keeps the namespace, as long as --unshare-net isn't given. (nsenter would need a privilege that the
// server's user doesn't have.) Sockets that a check of its health makes within Do stay in the namespace, too; root on the
// machine reaches the server's address without. The gateway's Options.Namespace is [Network.PathOf].
//
// Servers listen on [Network.Address] at the port, and only there. Their numbers are [Network.Number]'s. What is to be the wall between them is the
// machine's; /proc/sys/net in the sandbox shows the namespace's own.
//
// # Forwarding
//
// The machine has to forward IPv4 packets. Where it doesn't yet, [Open] has it do so, for packets from and to
// nodes alone: a rule drops all others, and [Network.Close] with everything removed ([Network.Clear]) takes
// both back. Filters of others (iptables with policy DROP for FORWARD, as Docker sets) act all the same: a packet
// has to be let through by all of them.
package netns
