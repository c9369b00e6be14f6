package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"steward/test/gopher"
	"steward/test/harness"
)

// allowList shows that the list acts before the first byte of the protocol, within a
// second of the PUT, and on open sessions.
func allowList(t *testing.T, s *harness.Server, d harness.Database) {
	c := s.Credentials(d)
	if n, err := bytesBeforeClose(d, "127.0.0.9"); n != 0 {
		t.Errorf("a blocked address got %d bytes (%v), want none", n, err)
	}
	gopher.AllowList(t, s, d, func(ctx context.Context, source string) (*sql.DB, error) { return harness.Connect(ctx, d, c, source) })
	if status, body := s.Call("PUT", d.Path(), map[string]any{"allow_list": d.AllowList}, nil); status != http.StatusOK {
		t.Fatalf("let in again: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
}

// bytesBeforeClose counts what the gateway sends to a source before it hangs up.
func bytesBeforeClose(d harness.Database, source string) (int64, error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 5 * time.Second}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(d.Hosts.Primary, fmt.Sprint(d.Port)))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, err
	}
	return io.Copy(io.Discard, conn)
}
