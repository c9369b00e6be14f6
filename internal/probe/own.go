package probe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownership is what a gateway was told of the connections of one check.
type ownership struct {
	mu   sync.Mutex
	over []func()
}

func (o *ownership) add(over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = append(o.over, over)
}

// end ends all of it.
func (o *ownership) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, over := range o.over {
		over()
	}
	o.over = nil
}

// own tells the gateway of a connection to a database before it is made, so that it
// counts as nobody's session. One that waits for what the server says needs a server.
func (c *check) own(to *ownership, address string, raw syscall.RawConn) error {
	if c.p.gateway == nil || c.Body != "" {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse address to connect to: %w", err)
	}
	if at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port()); !c.p.gateway.Serves(at) {
		return nil
	}
	source, err := sourceFor(at)
	if err != nil {
		return err
	}
	var from netip.AddrPort
	if err := errors.Join(raw.Control(func(fd uintptr) { from, err = bind(int(fd), source) }), err); err != nil {
		return fmt.Errorf("choose a port to connect from: %w", err)
	}
	to.add(c.p.gateway.Own(from, at))
	return nil
}

// sourceFor is the address that this machine reaches another one from. Nothing is sent.
func sourceFor(to netip.AddrPort) (netip.Addr, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("find the way to %s: %w", to, err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// bind gives a socket the address and a free port to connect from.
func bind(fd int, source netip.Addr) (netip.AddrPort, error) {
	var at unix.Sockaddr = &unix.SockaddrInet6{Addr: source.As16()}
	if source.Is4() {
		at = &unix.SockaddrInet4{Addr: source.As4()}
	}
	if err := unix.Bind(fd, at); err != nil {
		return netip.AddrPort{}, err
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch bound := bound.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(source, uint16(bound.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(source, uint16(bound.Port)), nil
	}
	return netip.AddrPort{}, errors.New("the socket has no address")
}
