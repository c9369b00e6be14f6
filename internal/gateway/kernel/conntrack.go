package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// flow is a connection that the kernel tracks.
type flow struct {
	from, to netip.AddrPort
	// server and seen are the other way's source and destination.
	server, seen netip.AddrPort
	// open is false before a connection is established and once it is closing.
	open bool
	// sent is how many bytes the client has sent, where the server's socket was asked.
	sent uint64
	// opening reports whether it is about to be established.
	opening bool
	// raw is the original way, as the kernel names the connection; nil for one that was held, and
	// joined to its server.
	raw []byte
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

// find looks a connection up by what its server sees of it.
func find(c *netlink.Conn, server, seen netip.AddrPort) (f flow, there bool, err error) {
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	e.Nested(ctTupleReply, func(e *netlink.AttributeEncoder) error {
		e.Nested(ctTupleIP, func(e *netlink.AttributeEncoder) error {
			e.Bytes(ctIPv4Src, server.Addr().AsSlice())
			e.Bytes(ctIPv4Dst, seen.Addr().AsSlice())
			return nil
		})
		e.Nested(ctTupleProto, func(e *netlink.AttributeEncoder) error {
			e.Uint8(ctProtoNum, unix.IPPROTO_TCP)
			e.Uint16(ctSrcPort, server.Port())
			e.Uint16(ctDstPort, seen.Port())
			return nil
		})
		return nil
	})
	body, err := e.Encode()
	if err != nil {
		return f, false, err
	}
	// The one answer says that more follow: what does is the acknowledgement.
	answers, err := c.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | ctGet, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, body...),
	})
	if errors.Is(err, syscall.ENOENT) || err == nil && (len(answers) == 0 || answers[0].Header.Type == netlink.Error) {
		return f, false, nil
	}
	if err != nil {
		return f, false, err
	}
	f, err = parseFlow(answers[0].Data[4:])
	return f, err == nil, err
}

// forget deletes connections from the kernel's table.
func forget(flows []flow) error {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return fmt.Errorf("forget connections: %w", err)
	}
	defer c.Close()
	for _, f := range flows {
		if f.raw == nil {
			continue
		}
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
	tcpSynSent, tcpSynReceived            = 1, 2
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
			d.Nested(within(ctProtoTCP, func(d *netlink.AttributeDecoder) {
				d.Nested(within(ctTCPState, func(d *netlink.AttributeDecoder) {
					state := d.Uint8()
					f.open, f.opening = state == tcpEstablished, state == tcpSynSent || state == tcpSynReceived
				}))
			}))
		}
	}
	return f, d.Err()
}

// within reads the attributes of a type.
func within(wanted uint16, read func(*netlink.AttributeDecoder)) func(*netlink.AttributeDecoder) error {
	return func(d *netlink.AttributeDecoder) error {
		for d.Next() {
			if d.Type() == wanted {
				read(d)
			}
		}
		return nil
	}
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
