package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"steward/internal/gateway/gatewaytest"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	gatewaytest.Run(t, func(t *testing.T) gatewaytest.Place {
		p := newPlace(t)
		p.Close()
		return suitePlace{p}
	})
}

// TestSuiteThorough has clients on loopback.
func TestSuiteThorough(t *testing.T) {
	t.Parallel()
	gatewaytest.Run(t, func(t *testing.T) gatewaytest.Place {
		p := newPlace(t)
		p.Close()
		p.o.PrimaryAddr, p.o.SecondaryAddr = netip.AddrFrom4([4]byte{127, 0, byte(p.n), 1}), netip.AddrFrom4([4]byte{127, 0, byte(p.n), 2})
		return loopbackPlace{suitePlace{p}}
	})
}

// suitePlace is a gateway between other machines.
type suitePlace struct{ p *place }

func (s suitePlace) Open(t *testing.T) gatewaytest.Gateway {
	t.Helper()
	s.p.open()
	return s.p.Gateway
}

func (s suitePlace) Ends() (primary, reads netip.Addr) { return s.p.o.PrimaryAddr, s.p.o.SecondaryAddr }
func (s suitePlace) First() int                        { return s.p.o.Ports[0] }
func (s suitePlace) Source(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 201, byte(s.p.n), byte(i)})
}

func (s suitePlace) Dial(source int, to netip.AddrPort) (conn net.Conn, err error) {
	s.p.clients.Do(func() error {
		conn, err = dialFrom(s.Source(source), to)
		return nil
	})
	return conn, err
}

func dialFrom(source netip.Addr, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0)), Timeout: 5 * time.Second}
	return d.Dial("tcp", to.String())
}

func (s suitePlace) Listen(t *testing.T) (l net.Listener) {
	t.Helper()
	s.p.servers.Do(func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("10.100.%d.2:0", s.p.n))
		return err
	})
	return l
}

// loopbackPlace is one whose clients are on the gateway's machine.
type loopbackPlace struct{ suitePlace }

func (s loopbackPlace) Source(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1, byte(s.p.n), byte(i)})
}

func (s loopbackPlace) Dial(source int, to netip.AddrPort) (net.Conn, error) {
	return dialFrom(s.Source(source), to)
}
