package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	rtnetlink "github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"steward/internal/gateway"
)

// Session is an open connection of a customer that the kernel leads to a server.
type Session struct {
	Port  int
	Reads bool
	// Client is where it comes from.
	Client netip.AddrPort
	// Server is where it was led to, and Seen whom the server sees there: the client,
	// or the gateway for clients from loopback.
	Server, Seen netip.AddrPort
}

// flow is a connection that the kernel tracks.
type flow struct {
	from, to netip.AddrPort
	// server and seen are the other way's source and destination.
	server, seen netip.AddrPort
	// open is false before a connection is established and once it is closing.
	open bool
	// raw is the original way, as the kernel names the connection.
	raw []byte
}

// Sessions counts the open sessions of a port, those that wait for a server included.
func (g *Gateway) Sessions(ctx context.Context, port int) (gateway.Count, error) {
	counts, err := g.AllSessions(ctx)
	return counts[port], err
}

// AllSessions counts the open sessions of all ports that have any.
func (g *Gateway) AllSessions(context.Context) (map[int]gateway.Count, error) {
	counts := map[int]gateway.Count{}
	for _, end := range []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} {
		flows, err := tracked(end, 0)
		if err != nil {
			return nil, fmt.Errorf("count sessions: %w", err)
		}
		for _, f := range flows {
			port := int(f.to.Port())
			if !f.open || port < g.o.Ports[0] || port > g.o.Ports[1] {
				continue
			}
			c := counts[port]
			if end == g.o.PrimaryAddr {
				c.Primary++
			} else {
				c.Reads++
			}
			counts[port] = c
		}
	}
	return counts, nil
}

// endMisfits ends the sessions that routes don't allow.
func (g *Gateway) endMisfits(ctx context.Context, routes []gateway.Route) error {
	byPort := map[int]gateway.Route{}
	for _, r := range routes {
		byPort[r.Port] = r
	}
	only := 0
	if len(routes) == 1 {
		only = routes[0].Port
	}
	return g.endOn(ctx, only, func(f flow) bool {
		r, mine := byPort[int(f.to.Port())]
		if !mine {
			return false
		}
		targets := r.Reads
		if f.to.Addr() == g.o.PrimaryAddr {
			targets = []netip.AddrPort{r.Primary}
		}
		return !r.Allows(f.from.Addr()) || !slices.Contains(targets, f.server)
	})
}

// end ends the sessions that match.
func (g *Gateway) end(ctx context.Context, match func(flow) bool) error {
	return g.endOn(ctx, 0, match)
}

// endOn ends the sessions of a port, 0 for all, that match. What the kernel knows of
// them is forgotten first: from then on no packet finds its way, and a client that sends one is reset.
func (g *Gateway) endOn(ctx context.Context, port int, match func(flow) bool) error {
	var gone []flow
	for _, end := range []netip.Addr{g.o.PrimaryAddr, g.o.SecondaryAddr} {
		flows, err := tracked(end, port)
		if err != nil {
			return fmt.Errorf("end sessions: %w", err)
		}
		for _, f := range flows {
			number := int(f.to.Port())
			// What leads to the gateway itself is the holder's.
			if number >= g.o.Ports[0] && number <= g.o.Ports[1] && f.server != f.to && match(f) {
				gone = append(gone, f)
			}
		}
	}
	if len(gone) == 0 {
		return nil
	}
	var sessions []Session
	for _, f := range gone {
		if f.open {
			sessions = append(sessions, Session{
				Port: int(f.to.Port()), Reads: f.to.Addr() == g.o.SecondaryAddr, Client: f.from, Server: f.server, Seen: f.seen,
			})
		}
	}
	if len(sessions) > 0 {
		g.o.End(ctx, sessions)
	}
	// The server's reset still has to find the client: sockets before what is known of them.
	err := g.cut(sessions)
	return errors.Join(err, forget(gone))
}

// cut destroys the servers' sockets of sessions, which resets both sides.
func (g *Gateway) cut(sessions []Session) error {
	byPlace := map[string][]Session{}
	for _, s := range sessions {
		place := g.o.Namespace(s.Server)
		byPlace[place] = append(byPlace[place], s)
	}
	var errs []error
	for place, list := range byPlace {
		if err := cutIn(place, list); err != nil {
			errs = append(errs, fmt.Errorf("end %d sessions: %w", len(list), err))
		}
	}
	return errors.Join(errs...)
}

func cutIn(place string, sessions []Session) error {
	at := netns.None()
	if place != "" {
		var err error
		if at, err = netns.GetFromPath(place); errors.Is(err, fs.ErrNotExist) {
			return nil // gone with its sockets
		} else if err != nil {
			return err
		}
		defer at.Close()
	}
	h, err := rtnetlink.NewHandleAt(at, unix.NETLINK_INET_DIAG)
	if err != nil {
		return err
	}
	defer h.Close()
	for _, s := range sessions {
		err := h.SocketDestroy(net.TCPAddrFromAddrPort(s.Server), net.TCPAddrFromAddrPort(s.Seen))
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return err
		}
	}
	return nil
}

// tracked are the TCP connections that went to an address of the gateway, at one
// port or, with 0, at all.
func tracked(to netip.Addr, port int) ([]flow, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	defer c.Close()
	body, err := trackedFilter(to, port)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	answers, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctGet, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{familyOf(to), unix.NFNETLINK_V0, 0, 0}, body...),
	})
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	var flows []flow
	for _, a := range answers {
		f, err := parseFlow(a.Data[4:])
		if err != nil {
			return nil, fmt.Errorf("list connections: %w", err)
		}
		if f.to.Addr() == to && (port == 0 || int(f.to.Port()) == port) {
			flows = append(flows, f)
		}
	}
	return flows, nil
}

// forget deletes connections from the kernel's table.
func forget(flows []flow) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("forget connections: %w", err)
	}
	defer c.Close()
	for _, f := range flows {
		e := netlink.NewAttributeEncoder()
		e.Bytes(unix.NLA_F_NESTED|ctTupleOrig, f.raw)
		body, err := e.Encode()
		if err != nil {
			return fmt.Errorf("forget connections: %w", err)
		}
		_, err = c.Execute(netlink.Message{
			Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctDelete, Flags: netlink.Request | netlink.Acknowledge},
			Data:   append([]byte{familyOf(f.to.Addr()), unix.NFNETLINK_V0, 0, 0}, body...),
		})
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("forget connections: %w", err)
		}
	}
	return nil
}

func familyOf(a netip.Addr) byte {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// Numbers of the kernel's interface to connection tracking (nfnetlink_conntrack.h).
const (
	ctGet, ctDelete                       = 1, 2
	ctTupleOrig, ctTupleReply             = 1, 2
	ctProtoInfo, ctFilter                 = 4, 25
	ctTupleIP, ctTupleProto               = 1, 2
	ctIPv4Src, ctIPv4Dst                  = 1, 2
	ctIPv6Src, ctIPv6Dst                  = 3, 4
	ctProtoNum, ctSrcPort, ctDstPort      = 1, 2, 3
	ctProtoTCP, ctTCPState                = 1, 1
	ctFilterOrig, ctFilterReply           = 1, 2
	filterDst, filterProto, filterDstPort = 1 << 1, 1 << 3, 1 << 5
	tcpEstablished                        = 3
)

// trackedFilter has the kernel leave out what isn't asked for.
func trackedFilter(to netip.Addr, port int) ([]byte, error) {
	flags := uint32(filterDst | filterProto)
	if port != 0 {
		flags |= filterDstPort
	}
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.Nested(ctTupleOrig, func(e *netlink.AttributeEncoder) error {
		e.Nested(ctTupleIP, func(e *netlink.AttributeEncoder) error {
			if to.Is4() {
				e.Bytes(ctIPv4Dst, to.AsSlice())
			} else {
				e.Bytes(ctIPv6Dst, to.AsSlice())
			}
			return nil
		})
		e.Nested(ctTupleProto, func(e *netlink.AttributeEncoder) error {
			e.Uint8(ctProtoNum, unix.IPPROTO_TCP)
			if port != 0 {
				e.Uint16(ctDstPort, uint16(port))
			}
			return nil
		})
		return nil
	})
	e.Nested(ctFilter, func(e *netlink.AttributeEncoder) error {
		e.ByteOrder = binary.NativeEndian
		e.Uint32(ctFilterOrig, flags)
		e.Uint32(ctFilterReply, 0)
		return nil
	})
	return e.Encode()
}

func parseFlow(b []byte) (f flow, err error) {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return f, err
	}
	for d.Next() {
		switch d.Type() {
		case ctTupleOrig:
			f.raw = d.Bytes()
			f.from, f.to = parseTuple(f.raw)
		case ctTupleReply:
			f.server, f.seen = parseTuple(d.Bytes())
		case ctProtoInfo:
			d.Nested(func(d *netlink.AttributeDecoder) error {
				for d.Next() {
					if d.Type() == ctProtoTCP {
						d.Nested(func(d *netlink.AttributeDecoder) error {
							for d.Next() {
								if d.Type() == ctTCPState {
									f.open = d.Uint8() == tcpEstablished
								}
							}
							return nil
						})
					}
				}
				return nil
			})
		}
	}
	return f, d.Err()
}

// parseTuple reads one way of a connection; what isn't TCP has no ports.
func parseTuple(b []byte) (from, to netip.AddrPort) {
	var source, destination netip.Addr
	var sourcePort, destinationPort uint16
	each(b, func(kind uint16, b []byte) {
		each(b, func(inner uint16, b []byte) {
			switch {
			case kind == ctTupleIP && (inner == ctIPv4Src || inner == ctIPv6Src):
				source, _ = netip.AddrFromSlice(b)
			case kind == ctTupleIP && (inner == ctIPv4Dst || inner == ctIPv6Dst):
				destination, _ = netip.AddrFromSlice(b)
			case kind == ctTupleProto && inner == ctSrcPort && len(b) >= 2:
				sourcePort = binary.BigEndian.Uint16(b)
			case kind == ctTupleProto && inner == ctDstPort && len(b) >= 2:
				destinationPort = binary.BigEndian.Uint16(b)
			}
		})
	})
	return netip.AddrPortFrom(source, sourcePort), netip.AddrPortFrom(destination, destinationPort)
}

// each calls f for every attribute.
func each(b []byte, f func(kind uint16, b []byte)) {
	d, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return
	}
	for d.Next() {
		f(d.Type(), d.Bytes())
	}
}
