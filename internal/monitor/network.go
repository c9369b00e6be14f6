package monitor

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"steward/internal/fault"
)

// Reach is who may have an address checked.
type Reach int

const (
	// Forbidden is never checked: it is no host, the cloud's own metadata service,
	// or another address in disguise.
	Forbidden Reach = iota
	// Private is checked for services whose region allows its network.
	Private
	// Public is checked for all.
	Public
)

func (r Reach) String() string { return [...]string{"forbidden", "private", "public"}[r] }

// Networks are the rules about where services may be. They are applied when a
// service is saved and, since names and redirects lead anywhere, to each address
// that is about to be connected to.
type Networks struct {
	// Regions has the private networks that the services of each region may be in.
	// A region without any has an entry too.
	Regions map[string][]netip.Prefix
	// Forbidden are the operator's own networks, whatever a region allows.
	Forbidden []netip.Prefix
	// Guards keep services off single ports.
	Guards []Guard
}

// Guard keeps services off a range of ports.
type Guard struct {
	// Networks is where it holds; nil: everywhere.
	Networks []netip.Prefix
	// First and Last are the ports, both included.
	First, Last uint16
	// TCP has tcp services pass: they send nothing.
	TCP bool
}

func (g Guard) stops(t ServiceType, to netip.AddrPort) bool {
	switch {
	case g.TCP && t == TCP, to.Port() < g.First, to.Port() > g.Last:
		return false
	}
	return g.Networks == nil || within(g.Networks, to.Addr())
}

// Barrier is why an address may not be connected to, as its service's owner reads
// it; "" when it may be. It depends on the rules alone, never on what is there.
type Barrier string

// The barriers.
const (
	NeedsRegion   Barrier = "The address is private: set the service's region, which must reach it."
	OutsideRegion Barrier = "The address is private, and the service's region doesn't reach it."
	NeverChecked  Barrier = "The address may not be monitored from here."
	GuardedPort   Barrier = "The port may not be monitored by a service of this type."
)

// Judge finds what keeps a service of a type and region ("" for none) from being
// connected to there.
func (n *Networks) Judge(t ServiceType, region string, to netip.AddrPort) Barrier {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	switch n.Reach(to.Addr()) {
	case Public:
	case Private:
		if region == "" {
			return NeedsRegion
		}
		if !within(n.Regions[region], to.Addr()) {
			return OutsideRegion
		}
	default:
		return NeverChecked
	}
	if n.guarded(t, to) {
		return GuardedPort
	}
	return ""
}

// Permit reports whether nothing keeps a service from being connected to there.
func (n *Networks) Permit(t ServiceType, region string, to netip.AddrPort) bool {
	return n.Judge(t, region, to) == ""
}

func (n *Networks) guarded(t ServiceType, to netip.AddrPort) bool {
	carried, _ := carried4(to.Addr())
	return slices.ContainsFunc(append(carried, to.Addr()), func(a netip.Addr) bool {
		return slices.ContainsFunc(n.Guards, func(g Guard) bool { return g.stops(t, netip.AddrPortFrom(a, to.Port())) })
	})
}

// Reach judges an address by the operator's networks and ReachOf.
func (n *Networks) Reach(a netip.Addr) Reach {
	a = a.Unmap()
	carried, _ := carried4(a)
	if slices.ContainsFunc(append(carried, a), func(a netip.Addr) bool { return within(n.Forbidden, a) }) {
		return Forbidden
	}
	return ReachOf(a)
}

// ValidateDestination finds what is wrong with the pair of address and region,
// region being nil or "" where there is none. Names are judged when they are
// resolved: at each check.
func (n *Networks) ValidateDestination(a Address, region *string) fault.Faults {
	name := ""
	if region != nil {
		name = *region
	}
	var faults fault.Faults
	allowed, known := n.Regions[name]
	if name != "" && !known {
		faults = append(faults, fault.NotValid("region"))
	}
	if !a.IP.IsValid() {
		return append(faults, n.validatePort(a)...)
	}
	switch n.Reach(a.IP) {
	case Forbidden:
		return append(faults, fault.NewInvalid("address", "%s may not be monitored from here", a.Host))
	case Private:
		switch {
		case name == "":
			faults = append(faults, fault.NewInvalid("region", "region is required for the private address %s", a.Host))
		case known && !within(allowed, a.IP):
			faults.Add("region", "region %s does not reach the private address %s", name, a.Host)
		}
	case Public:
		if name != "" && known {
			faults.Add("region", "region may not be set for the public address %s", a.Host)
		}
	}
	return append(faults, n.validatePort(a)...)
}

// validatePort finds ports that are guarded wherever a name may lead.
func (n *Networks) validatePort(a Address) fault.Faults {
	if n.guarded(a.Type, netip.AddrPortFrom(a.IP, a.Port)) {
		return fault.Faults{fault.NewInvalid("address", "Port %d of %s may not be monitored by a %s service", a.Port, a.Host, a.Type)}
	}
	return nil
}

// AllowedNetwork reports whether a region may have a network: one that is private
// as a whole.
func AllowedNetwork(p netip.Prefix) bool {
	return slices.ContainsFunc(private, func(q netip.Prefix) bool { return q.Bits() <= p.Bits() && q.Contains(p.Addr()) })
}

// LocalNetworks are what this machine's region allows: loopback and the private
// networks of RFC 1918 and RFC 4193 (decisions.md §6).
func LocalNetworks() []netip.Prefix {
	return prefixes("127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
}

// ReachOf judges an address by what it is for everybody: the special-purpose
// registries of IANA (RFC 6890) and where clouds keep their metadata.
func ReachOf(a netip.Addr) Reach {
	if !a.IsValid() || a.Zone() != "" {
		return Forbidden
	}
	a = a.Unmap()
	switch {
	case within(metadata, a):
		return Forbidden
	case within(private, a):
		return Private
	case a.Is4() && within(reserved4, a):
		return Forbidden
	case a.Is4():
		return Public
	}
	return reachOf6(a)
}

// reachOf6 is for those of IPv6 that aren't private: public is global unicast,
// where what carries an address of IPv4 is as good as that one. None of those
// leads to a private one on purpose.
func reachOf6(a netip.Addr) Reach {
	carried, carries := carried4(a)
	switch {
	case !carries && (!globalUnicast.Contains(a) || within(reserved6, a)):
		return Forbidden
	case slices.ContainsFunc(carried, func(a4 netip.Addr) bool { return ReachOf(a4) != Public }):
		return Forbidden
	}
	return Public
}

// carried4 are the addresses of IPv4 to which routers and translators may turn
// packets for a.
func carried4(a netip.Addr) (found []netip.Addr, carries bool) {
	if !a.Is6() {
		return nil, false
	}
	b := a.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case nat64.Contains(a): // RFC 6052
		return []netip.Addr{at(12)}, true
	case sixToFour.Contains(a): // RFC 3056
		found = append(found, at(2))
	case teredo.Contains(a): // RFC 4380: the server, and the client with each bit turned
		return []netip.Addr{at(4), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}, true
	}
	if group := binary.BigEndian.Uint32(b[8:]); group&^0x02000000 == 0x5efe { // ISATAP, RFC 5214, in any network
		found = append(found, at(12))
	}
	return found, sixToFour.Contains(a)
}

var (
	// metadata is where clouds tell a machine its secrets: AWS (also of containers),
	// Azure, Google, DigitalOcean and most others; Alibaba; Azure's host; Oracle.
	metadata = prefixes(
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "169.254.0.23/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
		"fd00:ec2::/32", "fd20:ce::254/128", "fe80::a9fe:a9fe/128",
	)
	// private: loopback, RFC 1918, shared (RFC 6598), link-local, ULA (RFC 4193).
	private = prefixes(
		"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16",
		"::1/128", "fc00::/7", "fe80::/10",
	)
	// reserved4: this network, protocol assignments, documentation, 6to4 relays,
	// benchmarks, multicast, reserved and broadcast.
	reserved4 = prefixes(
		"0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24",
		"192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	)
	globalUnicast = netip.MustParsePrefix("2000::/3")
	// reserved6: protocol assignments with benchmarks and ORCHID, documentation.
	reserved6 = prefixes("2001::/23", "2001:db8::/32", "3fff::/20")

	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	teredo    = netip.MustParsePrefix("2001::/32")
)

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

func within(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}
