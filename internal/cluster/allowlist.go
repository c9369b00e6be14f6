package cluster

import (
	"net/netip"
	"slices"
	"strings"

	"steward/internal/fault"
)

// AllowList are the addresses and CIDR ranges that may connect, as given. An
// empty list blocks everybody.
type AllowList []string

// ParseAllowList checks every item, drops duplicates and keeps order and
// spelling. All bad items come back in one fault per address family.
func ParseAllowList(items []string) (AllowList, error) {
	list := AllowList{}
	var bad4, bad6 []string
	for _, item := range items {
		if _, err := parsePrefix(item); err != nil {
			if strings.Contains(item, ":") {
				bad6 = append(bad6, item)
			} else {
				bad4 = append(bad4, item)
			}
			continue
		}
		if !slices.Contains(list, item) {
			list = append(list, item)
		}
	}
	var faults fault.Faults
	if len(bad4) > 0 {
		faults.Add("allow_list", "Invalid IPv4 address(es) or range(s): %s", strings.Join(bad4, ", "))
	}
	if len(bad6) > 0 {
		faults.Add("allow_list", "Invalid IPv6 address(es) or range(s): %s", strings.Join(bad6, ", "))
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

// Prefixes are the list's ranges, masked. Items that don't parse can't occur in
// a list made by ParseAllowList and are left out: what isn't understood must
// not open anything.
func (l AllowList) Prefixes() []netip.Prefix {
	prefixes := make([]netip.Prefix, 0, len(l))
	for _, item := range l {
		if p, err := parsePrefix(item); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes
}

func parsePrefix(item string) (netip.Prefix, error) {
	if strings.Contains(item, "/") {
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return netip.Prefix{}, err
		}
		return p.Masked(), nil
	}
	a, err := netip.ParseAddr(item)
	if err != nil {
		return netip.Prefix{}, err
	}
	a = a.WithZone("")
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// Equal tells whether two lists are the same to the letter.
func (l AllowList) Equal(other AllowList) bool { return slices.Equal(l, other) }
