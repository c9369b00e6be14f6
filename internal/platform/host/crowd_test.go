package host_test

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/testnet"
)

// TestIdleConnectionsLockNobodyOut opens more connections than the server has,
// from one address, and never logs in.
func TestIdleConnectionsLockNobodyOut(t *testing.T) {
	t.Parallel()
	for _, flavour := range []engine.Flavour{engine.FlavourPostgreSQL, engine.FlavourMariaDB} {
		t.Run(string(flavour), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, distributionOf(t, flavour))
			d := s.started(t)
			if s.kernel { // it counts a connection that the client alone leaves open for another minute
				testnet.Sysctl(t, "netfilter/nf_conntrack_tcp_timeout_close_wait", "1")
			}
			want := s.wanted(t, 1)
			want.Engine, want.Series = s.o.Installations[0].Family(), s.o.Installations[0].Series
			want.AllowList = cluster.AllowList{"127.0.0.0/8"}
			before := settle(t, d, want).Nodes[0]
			crowd, other := netip.MustParseAddr("127.0.0.66"), netip.MustParseAddr("127.0.0.67")
			password := s.secrets.Text(want.ID, platform.RootPassword)
			idle := open(t, crowd, net.JoinHostPort(s.o.PrimaryAddress.String(), strconv.Itoa(want.Port)), 320)

			if err := s.login(t.Context(), want.Cluster, other, password); err != nil {
				t.Errorf("another address: %v", err)
			}
			if err := d.SetPassword(t.Context(), want); err != nil {
				t.Errorf("reset: %v", err)
			}
			seen := settle(t, d, want)
			if !seen.Serving || seen.Nodes[0].Pid != before.Pid || seen.Nodes[0].Restarts != before.Restarts {
				t.Errorf("the server before %+v and after %+v", before, seen.Nodes[0])
			}
			routes, err := s.gateway.Routes(t.Context())
			const kept = 4 // for other sources, by the gateway
			if err != nil || len(routes) != 1 || routes[0].Connections < 20 || len(idle) < routes[0].Connections-kept {
				t.Errorf("only %d connections got through: %+v, %v", len(idle), routes, err)
			}
			// Who never logs in is dropped, and the address gets through again.
			await.True(t, "the server to drop who never logs in", func() bool {
				return s.login(t.Context(), want.Cluster, crowd, password) == nil
			})
		})
	}
}

// open opens connections from an address and lets them be.
func open(t *testing.T, from netip.Addr, to string, count int) []net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: 10 * time.Second}
	var all []net.Conn
	for range count {
		c, err := d.DialContext(t.Context(), "tcp", to)
		if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) {
			continue // turned away before this side had heard that it was connected
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		all = append(all, c)
	}
	return all
}
