package enginetest

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"
)

// heldClient is a client that stops in the middle of logging in: a proxy that forwards
// all that it says up to its message number n, and that one once it is let go.
type heldClient struct {
	address netip.AddrPort
	// holds is closed when the message is there; letGo has it forwarded.
	holds chan struct{}
	letGo func()
	free  <-chan struct{}
}

func holdClient(t *testing.T, server netip.AddrPort, n int) *heldClient {
	t.Helper()
	var sockets net.ListenConfig
	l, err := sockets.Listen(t.Context(), "tcp", netip.AddrPortFrom(server.Addr(), 0).String())
	must(t, err, "listen")
	free, letGo := context.WithCancel(t.Context())
	h := &heldClient{netip.MustParseAddrPort(l.Addr().String()), make(chan struct{}), letGo, free.Done()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			h.forward(client, server, n)
			n = 0 // whoever comes again isn't held
		}
	}()
	t.Cleanup(func() { letGo(); l.Close(); <-done })
	return h
}

// forward carries a connection to its end.
func (h *heldClient) forward(client net.Conn, to netip.AddrPort, n int) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", to.String(), 10*time.Second)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	message := make([]byte, 64<<10)
	for i := 1; ; i++ {
		length, err := client.Read(message)
		if err != nil {
			return
		}
		if i == n {
			close(h.holds)
			<-h.free
		}
		if _, err := server.Write(message[:length]); err != nil {
			return
		}
	}
}

// resetBesideLogins resets the password while somebody who knows the old one is logging
// in, at each step of that.
func resetBesideLogins(t *testing.T, s *Server) {
	for n := 1; ; n++ {
		held := holdClient(t, s.Node.Listen, n)
		thief := *s
		thief.Node.Listen = held.address
		db := thief.DB(t, s.Login())
		in := make(chan error, 1)
		go func() {
			var one int
			in <- db.QueryRowContext(context.WithoutCancel(t.Context()), "SELECT 1").Scan(&one)
		}()
		select {
		case err := <-in:
			must(t, err, "log in")
			if n < 4 {
				t.Errorf("a login takes %d messages only", n-1)
			}
			return
		case <-held.holds:
		}
		s.Node.RootPassword = "reset-beside-" + string(rune('a'+n))
		err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node)
		held.letGo()
		must(t, err, "reset password")
		if err := <-in; err == nil {
			t.Errorf("held at message %d, a login with the old password succeeded after the reset", n)
		}
		db.Close()
		must(t, s.TryLogin(t, s.Login()), "login with the new password")
	}
}
