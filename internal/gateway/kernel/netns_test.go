package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/gateway"
	"steward/internal/netns"
)

// TestServersInNetworksOfTheirOwn puts the gateway before servers that package netns
// keeps apart.
func TestServersInNetworksOfTheirOwn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := t.TempDir()
	networks, err := netns.Open(t.Context(), netns.Options{
		Dir: filepath.Join(dir, "networks"), RunDir: filepath.Join(dir, "run"), Logger: p.o.Logger,
		Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 170, byte(p.n), 0}), 24),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := networks.Clear(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	const port = 21000
	var servers []netip.AddrPort
	for number := range 2 {
		if err := networks.Ensure(t.Context(), netns.Node{Number: number, Port: port + number}); err != nil {
			t.Fatal(err)
		}
		at := netip.AddrPortFrom(networks.Address(number), uint16(port+number))
		servers = append(servers, at)
		err := netns.Do(networks.Path(number), func() error {
			l, err := net.Listen("tcp4", at.String())
			if err == nil {
				serve(t, l, fmt.Sprint(number))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	p.o.Namespace = networks.PathOf
	p.open()
	own := netip.PrefixFrom(p.o.PrimaryAddr, 32)
	r := gateway.Route{Cluster: 1, Port: port, Primary: servers[0], Reads: servers[:1], Allow: append(p.allow(7, 8), own)}
	p.set(r)
	p.set(gateway.Route{Cluster: 2, Port: port + 1, Primary: servers[1], Allow: p.allow(7)})
	kept, gone := p.expect(7, p.o.PrimaryAddr, port, "0 sees "+p.from(7)), p.expect(8, p.o.SecondaryAddr, port, "0 sees "+p.from(8))
	p.expect(0, p.o.PrimaryAddr, port, "0 sees "+own.Addr().String())
	r.Allow = append(p.allow(7), own)
	p.set(r)
	if !gone.ended() || !kept.alive() {
		t.Error("the session of the removed address, and that one alone, must end")
	}
	// Held, and joined by this process.
	r.Primary = netip.AddrPort{}
	p.set(r)
	held, err := p.dial(7, p.o.PrimaryAddr, port)
	if err != nil {
		t.Fatal(err)
	}
	r.Primary = servers[0]
	p.set(r)
	if got, want := held.hello(patience), "0 sees "+networks.Gateway().String(); got != want {
		t.Errorf("who was held got %q, want %q", got, want)
	}
	// From inside, neither a neighbour nor its way in, nor the server from outside past the gateway.
	_ = netns.Do(networks.Path(0), func() error {
		for _, to := range []netip.AddrPort{servers[1], netip.AddrPortFrom(p.o.PrimaryAddr, port+1), netip.AddrPortFrom(p.o.PrimaryAddr, port)} {
			if c, err := net.DialTimeout("tcp4", to.String(), time.Second); err == nil {
				c.Close()
				t.Errorf("%s can be reached from a server", to)
			}
		}
		return nil
	})
	p.clients.Do(func() error {
		if c, err := net.DialTimeout("tcp4", servers[0].String(), time.Second); err == nil {
			c.Close()
			t.Error("a server can be reached past the gateway")
		}
		return nil
	})
}
