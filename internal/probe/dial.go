package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steward/internal/monitor"
)

// blockedError is an address that the rules don't let the check connect to.
type blockedError struct{ why monitor.Barrier }

func (e *blockedError) Error() string { return string(e.why) }

// tooMany is what of a name's addresses isn't looked at any more.
const tooMany monitor.Barrier = "The host name has too many addresses."

// connect opens a connection whose reads and writes end at the check's deadline,
// or when ctx does. Each address that a name has is judged when it is tried.
func (c *check) connect(ctx context.Context, a monitor.Address) (net.Conn, error) {
	c.phase, c.begun = connecting, time.Now()
	d := net.Dialer{
		Deadline: c.deadline, KeepAlive: -1, Resolver: c.p.resolver,
	}
	var own ownership
	d.ControlContext = func(_ context.Context, _, address string, raw syscall.RawConn) error {
		if err := c.judge(address); err != nil {
			return err
		}
		return c.own(&own, address, raw)
	}
	host := a.Host
	if !a.IP.IsValid() && strings.Contains(host, ".") {
		host += "." // from the root: no looks in the machine's search domains
	}
	if c.redirects == 0 {
		ctx = c.noteAddresses(ctx, a)
	}
	raw, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(int(a.Port))))
	if err != nil {
		own.end()
		return nil, err
	}
	conn := &boundedConn{Conn: raw, left: mostRead, over: own.end}
	if err := conn.SetDeadline(c.deadline); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if ctx.Done() != nil {
		conn.forget = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // fails when it is closed, which is as good
	}
	return conn, nil
}

// mostTries bounds the addresses that one check tries, whatever names have: whoever
// holds a name's zone must not have a whole network looked at.
const mostTries = 16

func (c *check) judge(address string) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse address to connect to: %w", err)
	}
	if c.tried.Add(1) > mostTries {
		return &blockedError{tooMany}
	}
	if why := c.p.networks.Judge(c.Address.Type, c.Region, to); why != "" {
		return &blockedError{why}
	}
	return nil
}

// noteAddresses has the result tell what the host leads to. What may not be reached
// isn't told: two names of such an address are not to be known for one by failing
// together.
func (c *check) noteAddresses(ctx context.Context, a monitor.Address) context.Context {
	c.result.Addresses = nil
	note := func(ip netip.Addr) {
		if ip = ip.Unmap(); c.p.networks.Permit(c.Address.Type, c.Region, netip.AddrPortFrom(ip, a.Port)) {
			c.result.Addresses = append(c.result.Addresses, ip)
		}
	}
	if a.IP.IsValid() {
		note(a.IP)
		return ctx
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{DNSDone: func(found httptrace.DNSDoneInfo) {
		for _, one := range found.Addrs[:min(len(found.Addrs), mostTries)] {
			if ip, ok := netip.AddrFromSlice(one.IP); ok {
				note(ip)
			}
		}
	}})
}

// mostRead bounds what is read from one connection, all layers of wrapping
// included: a megabyte of body in chunks of a byte each takes six.
const mostRead = 8 << 20

var errTooMuch = errors.New("more was sent than is read")

// boundedConn is a connection of one check.
type boundedConn struct {
	net.Conn
	left   int
	forget func() bool
	// over is called when it is closed.
	over func()
}

func (b *boundedConn) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Conn.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err //nolint:wrapcheck // io.EOF and timeouts are told apart by the layers above
}

func (b *boundedConn) Close() error {
	if b.forget != nil {
		b.forget()
	}
	defer b.over()
	return b.Conn.Close()
}

// hasRoute asks the kernel whether it would know where to send a packet; nothing
// is sent. It tells a machine without IPv6 from a far network that is away.
func hasRoute(a netip.AddrPort) bool {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(a))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

var _ io.Reader = (*boundedConn)(nil)
