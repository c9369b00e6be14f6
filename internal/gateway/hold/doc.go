// Package hold keeps connections to databases waiting while these have no server,
// and joins them to one as soon as there is.
//
// A [Holder] listens on the gateway's own addresses at every port with a route. Where
// the kernel leads connections to servers by itself, it does so before they would reach
// this listener; take the kernel's rule for a port away and new connections arrive
// here, where they are held. One listener for each port, rather than one for all that asks
// the kernel where a connection wanted to go (SO_ORIGINAL_DST): who connects is seen with
// its true address, no rule and no masquerade leads there that could be missing, loopback and IPv6 work the same,
// other programs can't take a database's port meanwhile, and while the kernel's
// rules are lost, customers get in by this way, only slower.
//
// A connection is held for at most Options.Limit, and then told why in the
// protocol of its database. Once joined, its bytes pass this process (the kernel
// moves them, by splice). Held and joined connections end with the process: clients
// see them closed and connect again. Connections that the kernel leads aren't among these.
package hold
