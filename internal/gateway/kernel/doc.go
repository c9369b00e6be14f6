// Package kernel lets customers reach their databases by the kernel's own tables
// (nf_tables): a connection to a port of the gateway is led to the database's server, which sees
// the client's true address. No process of ours is on the way; what is in force outlives
// steward, and a reboot takes it, after which [Open] makes it anew from the routes on disk.
//
// There is one table, "steward-gateway-…" in the family inet, named by the data folder; render.go says what is
// in it. Databases are told apart by maps and sets alone, so a packet takes as long beside a
// thousand of them as beside one. Each change is one transaction, and read back. Every second it is asked
// whether anybody changed any table; if so, ours is compared with what it should be, and repaired, which
// the log tells and [Gateway.Changes]. Other tables aren't touched.
//
//   - Allow lists are sets of ranges. Packets that a client sends, those of established connections
//     included, are looked up; who isn't listed is reset. Answers of servers aren't: to reset those would leave the client hanging.
//   - Sessions of addresses that were taken off a list, and of servers that are no longer the route's, are ended
//     within [Gateway.Set]: Options.End is asked first, to end them with the server's own words; then their
//     sockets at the server are destroyed, which resets both sides, and the kernel forgets the connection.
//   - A database has so many connections (Route.Connections, for each server of an end), and one source that has more than a
//     few of them can't take the last ones. A source can make so many new ones in a second.
//     These counts are lost with the rules they are in: when Connections changes, or somebody deletes them.
//   - Without a server, new connections are held by package hold, in this process: there is nothing in the map
//     for the port then, and the packet goes to the listener on the gateway's address. The same happens
//     while the rules are lost, and always for servers that the kernel doesn't lead to: those on loopback, where packets
//     from outside must not come, and IPv4 servers behind an IPv6 end. What hold joins ends with this process; clients connect again.
//     The server sees such a client as the address of this machine that leads to it (netns.Network.Gateway, or gateway.Source on
//     loopback), like clients from loopback. So pg_hba has to let that address in beside the allow list, and our own and the replication
//     accounts must not be bound to it alone: customers come from there, too.
//   - Clients on this machine pass the hook for outgoing packets, the same rules, and are led to the server under
//     their own address, but from loopback: such packets can't leave the machine, and get the address of the link to the
//     server (masquerade), whose setting route_localnet has to be on (package netns sets it).
//   - A server that refuses isn't tried again, as HAProxy does: who stops one on purpose sets the route without it first.
//
// # How it is wired
//
//   - datadir.Dir.GatewayDriver chooses: [Available] says why not. The routes are those of HAProxy's folder, so that
//     a change of driver finds them; app ends the other driver first, since both listen on the ports.
//   - Options.Namespace is netns.Network.PathOf; servers listen on netns.Network.Address.
//   - Options.End and Options.Retire are host's, with a bound of its own.
//   - host withholds a server ([Gateway.Withhold]) before it stops it, or when it has ended, and sets the route with the next one.
//   - Route.Engine has to be set for those who are held in vain to be told in their protocol.
//   - Options.Waiting is for waking databases, which nothing does yet: it is told of every connection that begins to wait, with how many
//     there are, and must not block. Who wakes one sets the route, or calls [Gateway.Fail]. A sleeping database is a route without
//     Primary and Reads.
//   - [Tracked] is for doctor: when the kernel's table of connections is full, nobody new gets in.
//   - operator.StopAll calls [End], then netns.Network.Clear.
package kernel
