package gateway

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"steward/internal/cluster"
)

// Route is whom a port lets in, and where to. An empty Allow blocks everybody,
// 0.0.0.0/0 in it lets everybody in, IPv6 included. Without a Primary, or without
// Reads, new connections are held for some seconds, in the hope that one is set.
type Route struct {
	Cluster cluster.ID
	// Engine is whose protocol those are answered in who were held in vain; empty for none.
	Engine  cluster.Engine `json:",omitempty"`
	Port    int
	Allow   []netip.Prefix
	Primary netip.AddrPort
	Reads   []netip.AddrPort
	// Connections is how many each server is given at once; 0 for no bound. Others
	// wait, and one source can't take them all.
	Connections int
}

// readServers is how many servers reads can be spread over: the largest cluster.
const readServers = 3

// role is one of the two ends of a port.
type role string

const (
	primary role = "primary"
	reads   role = "reads"
)

// parked is where connections are sent that have no server: nothing answers
// there, so HAProxy holds them and tries again until the route gets one.
func parked() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 255, 255, 254}), 1)
}

// targets are the servers of a role.
func (r Route) targets(which role) []netip.AddrPort {
	switch {
	case which == reads:
		return r.Reads
	case r.Primary.IsValid():
		return []netip.AddrPort{r.Primary}
	}
	return nil
}

// server is what a slot for a server in HAProxy is set to.
type server struct {
	address netip.AddrPort
	// maintenance keeps it from being chosen.
	maintenance bool
	connections int
}

// SharesPrimary reports whether reads go where all else goes: then both ends
// count their connections together.
func (r Route) SharesPrimary() bool {
	return r.Primary.IsValid() && len(r.Reads) == 1 && r.Reads[0] == r.Primary
}

// servers fill the slots of a role.
func (r Route) servers(which role) []server {
	slots := 1
	if which == reads {
		slots = readServers
	}
	list := make([]server, slots)
	targets := r.targets(which)
	for i := range list {
		switch {
		case i < len(targets):
			list[i] = server{address: targets[i], connections: r.Connections}
		default:
			list[i] = server{address: parked(), maintenance: i > 0, connections: r.Connections}
		}
	}
	if which == reads {
		list = append(list, server{address: parked(), maintenance: !r.SharesPrimary()})
	}
	return list
}

// Allows reports whether a source may connect.
func (r Route) Allows(source netip.Addr) bool {
	source = source.Unmap().WithZone("")
	return slices.ContainsFunc(r.Allow, func(p netip.Prefix) bool {
		p = Unmapped(p)
		return p == Everybody() || p.Contains(source)
	})
}

// patterns are the entries of the access list for frontends of one address
// family, sorted and distinct. Families have lists of their own because HAProxy
// matches across them in ways that weren't asked for: ::/0 would let IPv4 in, and
// an IPv4 address its 6to4 relatives.
func (r Route) patterns(family family) []string {
	var list []string
	for _, p := range r.Allow {
		p = Unmapped(p)
		switch {
		case familyOf(p.Addr()) == family:
			list = append(list, p.String())
		case p == Everybody():
			list = append(list, "::/0")
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// family is 4 or 6.
type family int

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return 4
	}
	return 6
}

// Everybody is the range that stands for all addresses of both families.
func Everybody() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 0) }

// Unmapped masks a range and turns one of IPv4 addresses written as IPv6 (::ffff:10.0.0.0/104)
// into what it means.
func Unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

// Validate finds what is wrong with a route.
func (r Route) Validate() error {
	var errs []error
	if r.Port < 1 || r.Port > 65535 {
		errs = append(errs, fmt.Errorf("port %d is none", r.Port))
	}
	if r.Connections < 0 {
		errs = append(errs, fmt.Errorf("%d connections are none", r.Connections))
	}
	for _, p := range r.Allow {
		if !p.IsValid() {
			errs = append(errs, errors.New("allow list has an invalid range"))
		}
	}
	if len(r.Reads) > readServers {
		errs = append(errs, fmt.Errorf("%d servers for reads, at most %d are possible", len(r.Reads), readServers))
	}
	for _, s := range r.Reads {
		errs = append(errs, validServer(s))
	}
	if r.Primary != (netip.AddrPort{}) {
		errs = append(errs, validServer(r.Primary))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("route of port %d: %w", r.Port, err)
	}
	return nil
}

func validServer(s netip.AddrPort) error {
	if !s.IsValid() || s.Port() == 0 || s.Addr().IsUnspecified() || s.Addr().Zone() != "" || s.Addr().Is4In6() {
		return fmt.Errorf("server %s is no address of one", s)
	}
	return nil
}

// Equal reports whether two routes are the same.
func (r Route) Equal(o Route) bool {
	return r.Cluster == o.Cluster && r.Engine == o.Engine && r.Port == o.Port && slices.Equal(r.Allow, o.Allow) &&
		r.Primary == o.Primary && slices.Equal(r.Reads, o.Reads) && r.Connections == o.Connections
}

// Clone shares nothing with the route.
func (r Route) Clone() Route {
	r.Allow, r.Reads = slices.Clone(r.Allow), slices.Clone(r.Reads)
	return r
}
