package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"steward/internal/fault"
)

// AllowList are the addresses and CIDR ranges that may connect, as given. An
// empty list blocks everybody.
type AllowList []string

// mostItems bounds a list: the gateway looks through it for every connection.
const mostItems = 1000

// ParseAllowList checks every item, drops duplicates and keeps order and
// spelling. All bad items come back in one fault per address family, and those
// with bits beyond their prefix in one more: 1.2.3.4/0 looks like one address
// and lets everybody in.
func ParseAllowList(items []string) (AllowList, error) {
	list := AllowList{}
	var bad4, bad6, loose []string
	known := make(map[string]bool, len(items))
	for _, item := range items {
		if known[item] {
			continue
		}
		known[item] = true
		p, err := parsePrefix(item)
		switch {
		case err == nil && p != p.Masked():
			loose = append(loose, fmt.Sprintf("%s would be %s", item, p.Masked()))
		case err == nil:
			list = append(list, item)
		case strings.Contains(item, ":"):
			bad6 = append(bad6, item)
		default:
			bad4 = append(bad4, item)
		}
	}
	var faults fault.Faults
	if len(bad4) > 0 {
		faults.Add("allow_list", "Invalid IPv4 address(es) or range(s): %s", fault.Quote(bad4))
	}
	if len(bad6) > 0 {
		faults.Add("allow_list", "Invalid IPv6 address(es) or range(s): %s", fault.Quote(bad6))
	}
	if len(loose) > 0 {
		const most = 20
		faults.Add("allow_list", "Must be whole ranges or single addresses: %s", strings.Join(loose[:min(len(loose), most)], ", "))
	}
	if len(known) > mostItems {
		faults.Add("allow_list", "Must have at most %d items; join neighbours in ranges", mostItems)
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

// anywhere4 is the range that, as the API has it, allows every address: those
// of IPv6 too.
var anywhere4, anywhere6 = netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)

// Prefixes are the list's ranges, masked, each once. Items that don't parse
// can't occur in a list made by ParseAllowList and are left out: what isn't
// understood must not open anything.
func (l AllowList) Prefixes() []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(l))
	seen := make(map[netip.Prefix]bool, len(l))
	add := func(p netip.Prefix) {
		if !seen[p] {
			seen[p] = true
			prefixes = append(prefixes, p)
		}
	}
	for _, item := range l {
		p, err := parsePrefix(item)
		if err != nil {
			continue
		}
		p = p.Masked() // lists that were taken in earlier times
		if add(p); p == anywhere4 && !strings.Contains(item, ":") {
			add(anywhere6)
		}
	}
	return prefixes
}

// Allows reports whether an address may connect.
func (l AllowList) Allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l.Prefixes(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// parsePrefix reads an address or a range. IPv6 zones name interfaces of this
// machine and mean nothing to a list; IPv4 addresses in IPv6 clothes are taken
// for what they are, since that is how clients connect.
func parsePrefix(item string) (netip.Prefix, error) {
	if !strings.Contains(item, "/") {
		a, err := netip.ParseAddr(item)
		if err != nil {
			return netip.Prefix{}, err
		}
		if a.Zone() != "" {
			return netip.Prefix{}, errZone
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(item)
	if err != nil {
		return netip.Prefix{}, err
	}
	const mapped = 96 // bits before the IPv4 address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, nil
}

var errZone = errors.New("an address with a zone")

// Equal reports whether two lists are the same to the letter.
func (l AllowList) Equal(other AllowList) bool { return slices.Equal(l, other) }
