package gateway_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/gateway"
	"steward/internal/gateway/gatewaytest"
	"steward/internal/testdir"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	testdir.NeedsServers(t)
	if _, err := gateway.FindBinary(); err != nil {
		t.Skip(err)
	}
	gatewaytest.Run(t, func(t *testing.T) gatewaytest.Place {
		first := testdir.Ports(t, 100)
		run := testdir.New(t, "gw")
		p := place{gateway.Options{
			Dir: filepath.Join(run, "gateway"), RunDir: filepath.Join(run, "run"), Ports: [2]int{first, first + 99}, MaxConn: 1000,
			PrimaryAddr: netip.MustParseAddr("127.0.0.1"), SecondaryAddr: netip.MustParseAddr("127.0.0.2"),
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		}}
		t.Cleanup(func() {
			if err := gateway.End(context.Background(), p.o.Dir, p.o.RunDir); err != nil {
				t.Error(err)
			}
		})
		return p
	})
}

// place is loopback, with HAProxy.
type place struct{ o gateway.Options }

func (p place) Open(t *testing.T) gatewaytest.Gateway {
	t.Helper()
	g, err := gateway.Open(t.Context(), p.o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (p place) Ends() (primary, reads netip.Addr) { return p.o.PrimaryAddr, p.o.SecondaryAddr }
func (p place) First() int                        { return p.o.Ports[0] }
func (p place) Source(i int) netip.Addr           { return netip.AddrFrom4([4]byte{127, 0, 1, byte(i)}) }

func (p place) Dial(source int, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.Source(source), 0)), Timeout: 5 * time.Second}
	return d.Dial("tcp", to.String())
}

func (p place) Listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.77.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
