package host_test

import (
	"net/netip"
	"testing"

	"steward/internal/platform/host"
	"steward/internal/testnet"
)

// TestServerNetworks: checks of services, which root makes, could reach servers' own networks.
func TestServerNetworks(t *testing.T) {
	t.Parallel()
	testnet.Need(t)
	s := newSite(t, distribution(t))
	for _, at := range []string{"127.0.77.1", "127.0.79.1", s.o.Networks.Address(0).String()} {
		there := false
		for _, p := range host.ServerNetworks(s.o.Networks) {
			there = there || p.Contains(netip.MustParseAddr(at))
		}
		if !there {
			t.Errorf("%s isn't among the servers' networks", at)
		}
	}
}
