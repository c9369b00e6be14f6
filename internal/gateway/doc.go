// Package gateway lets customers reach their databases: HAProxy, passing TCP
// through, so that TLS stays end to end. Each database has one port, on a
// primary address (writes) and a secondary one (reads), and a list of sources
// that may connect; all others are turned away before a byte is exchanged.
//
// Frontends are rendered ahead of the databases that will use them, blocked and
// without a server. Opening, changing and closing a route is then work for
// HAProxy's runtime API and costs about a millisecond. Only when spare ports run
// short a new generation of HAProxy is started: it takes the listening sockets
// over from the old one, whose frontends are shut down. The old one is not told
// to stop (that would close its runtime socket): it keeps its open sessions, and
// they can still be ended one by one, until none is left.
//
// The routes are on disk before HAProxy hears of them, and everything is done by
// looking at the running process first: whatever is killed in the middle, the
// next Open, Set or restart makes the world as the routes have it. HAProxy is a
// process of its own session: it lives on when steward stops.
package gateway
