package hold

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"steward/internal/gateway"
)

// session is one connection. Its fields are guarded by the Holder's mutex.
type session struct {
	client *net.TCPConn
	server net.Conn
	// from is the client's address, to the gateway's, and source from's without its port.
	from, to netip.AddrPort
	source   netip.Addr
	own      bool
	end      int
	// target is the server it is joined to, if it is.
	target netip.AddrPort
	ended  bool
}

// cut ends the session at once; the Holder's mutex is held.
func (s *session) cut() {
	s.ended = true
	_ = s.client.SetLinger(0) // a reset, so that nobody takes it for a regular end
	s.client.Close()
	if s.server != nil {
		s.server.Close()
	}
}

func addressOf(a net.Addr) netip.AddrPort {
	at := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

func (h *Holder) serve(p *port, end int, c *net.TCPConn) {
	defer c.Close()
	from, to := addressOf(c.RemoteAddr()), addressOf(c.LocalAddr())
	s := &session{client: c, end: end, from: from, to: to, source: from.Addr(), own: h.o.Own(from, to)}
	h.mu.Lock()
	// The kernel let it in; but its rules may be gone.
	if !p.route.Allows(s.source) {
		h.mu.Unlock()
		_ = c.SetLinger(0)
		return
	}
	p.sessions[s] = struct{}{}
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(p.sessions, s)
	}()
	early := listen(c)
	server, why := h.await(p, s, early)
	if why != "" {
		early.stop()
		h.mu.Lock()
		engine := p.route.Engine
		h.mu.Unlock()
		tell(c, engine, why)
		return
	}
	if server == nil {
		early.stop()
		return
	}
	defer server.Close()
	if early.stop() {
		join(c, server, early.bytes)
	}
}

// await returns a connection to a server of the session's end as soon as there is
// one, or why not; neither when the client is gone.
func (h *Holder) await(p *port, s *session, early *early) (server net.Conn, why string) {
	limit := time.NewTimer(h.o.Limit)
	defer limit.Stop()
	held := false
	defer func() {
		if held {
			h.mu.Lock()
			p.held--
			h.held--
			h.mu.Unlock()
		}
	}()
	for {
		h.mu.Lock()
		changed, failed, targets := p.changed, p.failed, p.targets(s.end)
		if s.ended {
			h.mu.Unlock()
			return nil, ""
		}
		h.mu.Unlock()
		var target netip.AddrPort
		if len(targets) > 0 {
			target = choose(targets)
			if server := h.dial(p, s, target); server != nil {
				return server, ""
			}
		} else if failed != "" {
			return nil, failed
		}
		if !held {
			h.mu.Lock()
			if h.held >= h.o.Most {
				h.mu.Unlock()
				return nil, "too many connections wait for their databases"
			}
			held = true
			p.held++
			h.held++
			number, n := p.route.Port, p.held
			h.mu.Unlock()
			if !s.own {
				h.o.Waiting(number, n)
			}
		}
		var again <-chan time.Time
		if target.IsValid() { // it refuses: it may be about to start
			again = time.After(retry)
		}
		select {
		case <-changed:
		case <-again:
		case <-early.gone:
			return nil, ""
		case <-limit.C:
			return nil, "the database system is starting up"
		}
	}
}

// retry is the pause before a server that refuses is tried again.
const retry = 50 * time.Millisecond

// dial connects to a server; nil when it isn't there, or isn't the one any more.
func (h *Holder) dial(p *port, s *session, target netip.AddrPort) net.Conn {
	d := net.Dialer{Timeout: time.Second}
	if target.Addr().IsLoopback() && target.Addr().Is4() {
		// An address that no customer can come from: what servers take from others alone stays out of reach.
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(gateway.Source), 0))
	}
	server, err := d.DialContext(context.Background(), "tcp", target.String())
	if err != nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.ended || !slices.Contains(p.targets(s.end), target) {
		server.Close()
		return nil
	}
	s.server, s.target = server, target
	return server
}

// early reads what a client sends before it has a server: that it is gone is seen
// by nothing else.
type early struct {
	c     *net.TCPConn
	bytes []byte
	// gone is closed when the client is.
	gone chan struct{}
	done chan struct{}
}

// earlyMost is more than any client says before it is answered.
const earlyMost = 16 << 10

func listen(c *net.TCPConn) *early {
	e := &early{c: c, gone: make(chan struct{}), done: make(chan struct{})}
	go e.read()
	return e
}

func (e *early) read() {
	defer close(e.done)
	part := make([]byte, 512)
	for len(e.bytes) < earlyMost {
		n, err := e.c.Read(part)
		e.bytes = append(e.bytes, part[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		if err != nil {
			close(e.gone)
			return
		}
	}
}

// stop ends the reading and reports whether the client is still there.
func (e *early) stop() bool {
	_ = e.c.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
	<-e.done
	_ = e.c.SetReadDeadline(time.Time{})
	select {
	case <-e.gone:
		return false
	default:
		return true
	}
}

// join passes bytes both ways until both ends have closed.
func join(client *net.TCPConn, server net.Conn, early []byte) {
	if _, err := server.Write(early); err != nil {
		return
	}
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, err := io.Copy(to, from) // splices
		if err != nil {
			to.Close()
			from.Close()
			return
		}
		_ = to.(*net.TCPConn).CloseWrite()
	}
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}
