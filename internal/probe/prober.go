// Package probe looks at services from outside, as their users do: one check, one
// new connection, one result. Whatever address a check is about to connect to, of
// the service itself or of a redirect, is judged in the moment of connecting, so
// that neither names that change nor redirects lead to where they shouldn't.
package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"steward/internal/monitor"
)

// Options are what a Prober is made of.
type Options struct {
	// Networks say what may be connected to.
	Networks *monitor.Networks
	// Roots are the authorities that certificates are checked with; nil: the system's.
	Roots *x509.CertPool
	// UserAgent is how checks present themselves to web servers.
	UserAgent string
	// Resolver looks names up; nil: as the system is configured.
	Resolver *net.Resolver
	// Gateway is where databases are reached that checks mustn't wake; nil for none.
	Gateway Gateway
}

// Gateway is told of connections that aren't anybody's sessions.
type Gateway interface {
	// Serves reports whether an address is an end of the gateway's.
	Serves(to netip.AddrPort) bool
	// Own is told of a connection before it is made. It lasts until over is called.
	Own(from, to netip.AddrPort) (over func())
}

// Prober checks services. It keeps nothing between checks and is safe for
// concurrent use.
type Prober struct {
	networks *monitor.Networks
	resolver *net.Resolver
	tls      *tls.Config
	h2       *http.Transport
	agent    string
	headers  string
	gateway  Gateway
}

// New makes a Prober. There is nothing to stop.
func New(o Options) *Prober {
	p := &Prober{networks: o.Networks, resolver: o.Resolver, agent: o.UserAgent, gateway: o.Gateway}
	if p.resolver == nil {
		p.resolver = &net.Resolver{PreferGo: true}
	}
	p.tls = &tls.Config{RootCAs: o.Roots, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	p.h2 = newTransport2()
	p.headers = headers1(o.UserAgent)
	return p
}

// Target is what a check is to find.
type Target struct {
	Address monitor.Address
	// Timeout covers the whole check.
	Timeout time.Duration
	// Body is a text that must be in what the service sends; "" for any.
	Body string
	// Region lets the check reach that region's private networks; "" for none.
	Region string
}

// Check looks at a service once. It returns within the timeout, or when ctx ends,
// which makes the result inconclusive.
func (p *Prober) Check(ctx context.Context, t Target) monitor.Result {
	started := time.Now()
	c := &check{p: p, Target: t, deadline: started.Add(t.Timeout)}
	var err error
	if t.Address.Type == monitor.URL {
		err = c.url(ctx)
	} else {
		err = c.tcp(ctx)
	}
	c.result.Class, c.result.Detail = monitor.OK, ""
	if err != nil {
		c.fail(ctx, err)
	}
	c.result.Started, c.result.Took = started, time.Since(started)
	return c.result
}

// check is one check on its way.
type check struct {
	p *Prober
	Target
	deadline time.Time
	// begun is when connecting to the current hop began; phase is what is waited for.
	begun time.Time
	phase phase
	// tried counts addresses; several may be tried at the same time.
	tried atomic.Int32
	// http1 keeps TLS from agreeing on another version of HTTP.
	http1 bool
	// redirects is how many were followed.
	redirects int
	result    monitor.Result
}

// fail puts an error into the words of the result.
func (c *check) fail(ctx context.Context, err error) {
	f := c.explain(ctx, err)
	if f.class == monitor.Refused || f.class == monitor.Blocked {
		c.hold(ctx)
	}
	if c.redirects > 0 && f.class != monitor.BadRedirect && f.class != monitor.Inconclusive {
		f = &failure{f.class, "After a redirect: " + f.detail}
	}
	c.result.Class, c.result.Detail = f.class, f.detail
}

// refusal is how long a refused connection takes at least, longer than a refusal
// takes within a data centre: so an address that is blocked takes as long as one
// where nothing listens.
const refusal = 10 * time.Millisecond

func (c *check) hold(ctx context.Context) {
	until := c.begun.Add(refusal)
	if until.After(c.deadline) {
		until = c.deadline
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
