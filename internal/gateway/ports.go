package gateway

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Frontends are made ahead in blocks: blockSize at first, and as many again
// whenever fewer than spareLeast have no route.
const (
	blockSize  = 32
	spareLeast = 8
)

// PortError says that the gateway can't listen on a port.
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
// slots of them have some by now; used are those that a new database can't get.
func growSlots(first, total, slots int, used func(port int) bool) int {
	spare := func() (n int) {
		for port := first; port < first+min(slots, total); port++ {
			if !used(port) {
				n++
			}
		}
		return n
	}
	for slots = max(slots, blockSize); slots < total && spare() < spareLeast; {
		slots += blockSize
	}
	return min(slots, total)
}

// spans are ports in words: 21000-21031, 21040.
func spans(ports []int) string {
	var list []string
	for i := 0; i < len(ports); {
		end := i
		for end+1 < len(ports) && ports[end+1] == ports[end]+1 {
			end++
		}
		if end == i {
			list = append(list, strconv.Itoa(ports[i]))
		} else {
			list = append(list, fmt.Sprintf("%d-%d", ports[i], ports[end]))
		}
		i = end + 1
	}
	return strings.Join(list, ", ")
}

// Usable is nil when a route can be set on the port: HAProxy listens there, or could.
// It doesn't wait for changes that are being made.
func (g *Gateway) Usable(port int) error {
	if i := g.serving.Load(); i != nil && i.process.Running() && i.serves(port) {
		return nil
	}
	return Probe(g.addresses(), port)
}

// Probe reports whether the gateway could listen on a port of all its addresses.
func Probe(addresses []netip.Addr, port int) error {
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
