package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"steward/internal/platform/host/port"
	"steward/internal/platform/host/state"
)

// PortUsable reports whether a cluster that has no port yet could get this one: the
// gateway and all of its servers could listen there.
func (d *Driver) PortUsable(number int) bool {
	if d.o.Gateway.Usable(number) != nil {
		return false
	}
	if d.o.Networks != nil {
		return true // nobody else listens in networks of their own
	}
	addresses := []netip.AddrPort{d.scratchAddress(number)}
	for ordinal := range state.MaxNodes {
		addresses = append(addresses, d.listenAddress(ordinal, number))
	}
	for _, at := range addresses {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil || l.Close() != nil {
			return false
		}
	}
	return true
}

// checkPort returns a permanentError naming the program that uses the server's address.
func checkPort(ctx context.Context, at netip.AddrPort) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d: %w", at.Port(), err)
	}
	who := "another program"
	if name, pid, ok := port.Listener(at); ok {
		who = fmt.Sprintf("%s (process %d)", name, pid)
	}
	return &permanentError{fmt.Sprintf("%s is used by %s: stop it, or choose other gateway.ports", at, who)}
}
