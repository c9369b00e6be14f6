package enginetest

import (
	"context"
	"database/sql"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
)

// session is one of dbadmin's, whom the server sees at an address.
type session struct {
	*sql.Conn
	seen netip.AddrPort
}

// session logs in by way of a listener that forwards, so that the address is known.
func (s *Server) session(t *testing.T) session {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(s.Node.Listen.Addr(), 0).String())
	must(t, err, "listen")
	defer l.Close()
	seen := make(chan netip.AddrPort, 1)
	go func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		defer client.Close()
		server, err := net.DialTimeout("tcp", s.Node.Listen.String(), 10*time.Second)
		if err != nil {
			return
		}
		defer server.Close()
		seen <- netip.MustParseAddrPort(server.LocalAddr().String())
		go func() {
			defer client.Close()
			_, _ = io.Copy(client, server)
		}()
		_, _ = io.Copy(server, client)
	}()
	by := *s
	by.Node.Listen = netip.MustParseAddrPort(l.Addr().String())
	conn, err := by.DB(t, s.Login()).Conn(t.Context())
	must(t, err, "log in")
	t.Cleanup(func() { conn.Close() })
	return session{conn, <-seen}
}

// alive reports whether the session takes a statement.
func (c session) alive(t *testing.T) bool {
	t.Helper()
	_, err := c.ExecContext(t.Context(), "SELECT 1")
	return err == nil
}

// sessionsEnd ends sessions by where they come from: first those that do nothing, then whatever they do.
func sessionsEnd(t *testing.T, s *Server) {
	idle, open, busy, other := s.session(t), s.session(t), s.session(t), s.session(t)
	for _, q := range []string{"CREATE TABLE sessions_end (v int)", "BEGIN", "INSERT INTO sessions_end VALUES (1)"} {
		_, err := open.ExecContext(t.Context(), q)
		must(t, err, q)
	}
	long := "DO SLEEP(60)"
	if s.Bench.Installation.Family() == cluster.PostgreSQL {
		long = "SELECT pg_sleep(60)"
	}
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(context.WithoutCancel(t.Context()), long)
		ended <- err
	}()
	theirs := []netip.AddrPort{idle.seen, open.seen, busy.seen}
	pause := 100 * time.Millisecond
	if s.Bench.Installation.Flavour == engine.FlavourMySQL {
		pause = 1100 * time.Millisecond // it counts whole seconds
	}
	await.True(t, "who does nothing ends", func() bool {
		time.Sleep(pause)
		must(t, s.Bench.Driver.RetireSessions(t.Context(), s.Node, theirs, 30*time.Millisecond), "retire sessions")
		return !idle.alive(t)
	})
	if !open.alive(t) {
		t.Error("a session in a transaction doesn't count as one that does nothing")
	}
	select {
	case err := <-ended:
		t.Errorf("a session in a statement doesn't do nothing: %v", err)
	default:
	}
	must(t, s.Bench.Driver.EndSessions(t.Context(), s.Node, theirs), "end sessions")
	if open.alive(t) {
		t.Error("a session in a transaction lives on")
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the statement came to its end")
		}
	case <-time.After(5 * time.Second):
		t.Error("a session in a statement lives on")
	}
	if !other.alive(t) {
		t.Error("the session of another address has ended")
	}
	_, err := other.ExecContext(t.Context(), "DROP TABLE sessions_end")
	must(t, err, "drop table")
	must(t, s.Bench.Driver.EndSessions(t.Context(), s.Node, theirs), "end sessions that are gone")
}
