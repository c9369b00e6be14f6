package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"steward/internal/monitor"
)

// ErrBlocked is an address that the rules don't let a connection lead to.
var ErrBlocked = errors.New("the address may not be reached from here")

// Dialer opens connections that last, to addresses that are judged as those of checks are: each when it is about to be connected to, so that
// names that change lead nowhere else.
type Dialer struct {
	// Networks say what may be connected to, by their region Region; guards hold for all.
	Networks *monitor.Networks
	Region   string
	// Resolver looks names up; nil: as the system is configured.
	Resolver *net.Resolver
	// Timeout bounds the making of a connection.
	Timeout time.Duration
}

// anything is no service's type: guards that let checks of one pass don't let this.
const anything monitor.ServiceType = ""

// Dial connects to a host's port by TCP; ErrBlocked when the rules forbid it.
func (d *Dialer) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ".") {
		host = strings.TrimSuffix(host, ".") + "." // from the root: no looks in the machine's search domains
	}
	var tried atomic.Int32
	dialer := net.Dialer{Timeout: d.Timeout, Resolver: d.Resolver, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("parse address to connect to: %w", err)
		}
		if tried.Add(1) > mostTries || d.Networks.Judge(anything, d.Region, to) != "" {
			return ErrBlocked
		}
		return nil
	}}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// Permits reports whether an address may be connected to. Names are judged when they are looked up.
func (d *Dialer) Permits(host string, port int) bool {
	address, err := netip.ParseAddr(host)
	return err != nil || d.Networks.Permit(anything, d.Region, netip.AddrPortFrom(address, uint16(port)))
}
