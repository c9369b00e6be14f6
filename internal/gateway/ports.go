package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// Frontends are made ahead in blocks: blockSize at first, and as many again
// whenever fewer than spareLeast have no route.
const (
	blockSize  = 32
	spareLeast = 8
)

// PortError tells that the gateway can't listen on a port.
type PortError struct {
	Port int
	Err  error
}

func (e *PortError) Error() string {
	if errors.Is(e.Err, syscall.EADDRINUSE) {
		return fmt.Sprintf("port %d is in use by another program; free it or change gateway.ports", e.Port)
	}
	return fmt.Sprintf("port %d can't be listened on: %v", e.Port, e.Err)
}

func (e *PortError) Unwrap() error { return e.Err }

// wantPorts are the ports to make frontends for: the first slots of the range,
// and all with a route.
func wantPorts(first, slots int, routes map[int]Route) []int {
	ports := slices.Collect(maps.Keys(routes))
	for i := range slots {
		ports = append(ports, first+i)
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// growSlots is how many leading ports of a range of total need frontends, when
// slots of them have some by now.
func growSlots(first, total, slots int, routes map[int]Route) int {
	spare := func() int {
		n := slots
		for port := range routes {
			if port >= first && port < first+slots {
				n--
			}
		}
		return n
	}
	for slots = max(slots, blockSize); slots < total && spare() < spareLeast; {
		slots += blockSize
	}
	return min(slots, total)
}

// probe tells whether the gateway could listen on a port of all its addresses.
func probe(addresses []netip.Addr, port int) error {
	for _, a := range addresses {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, uint16(port))))
		if err != nil {
			return &PortError{Port: port, Err: err}
		}
		if err := l.Close(); err != nil {
			return &PortError{Port: port, Err: err}
		}
	}
	return nil
}
