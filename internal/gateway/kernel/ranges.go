package kernel

import (
	"net/netip"
	"slices"

	"steward/internal/gateway"
)

// span is a range of addresses: from first up to, but without, after. An invalid
// after is beyond the last address there is.
type span struct{ first, after netip.Addr }

// spans are the addresses of one family that a list lets in, sorted, and neither
// overlapping nor touching: the kernel takes no others.
func spans(list []netip.Prefix, v6 bool) []span {
	var all []span
	for _, p := range list {
		p = gateway.Unmapped(p)
		if p == gateway.Everybody() && v6 {
			p = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if p.Addr().Is6() == v6 {
			all = append(all, span{p.Addr(), after(p)})
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.first.Compare(b.first) })
	var merged []span
	for _, s := range all {
		if n := len(merged); n > 0 && (!merged[n-1].after.IsValid() || s.first.Compare(merged[n-1].after) <= 0) {
			if last := &merged[n-1]; last.after.IsValid() && (!s.after.IsValid() || s.after.Compare(last.after) > 0) {
				last.after = s.after
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// after is the first address after a range.
func after(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ := netip.AddrFromSlice(b) // as many bytes as before
	return last.Next()
}
