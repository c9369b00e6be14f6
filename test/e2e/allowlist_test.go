package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// TestAllowList shows that the list acts before the first byte of the
// protocol, within a second of the PUT, and on open sessions. MariaDB is the one that
// speaks first.
func TestAllowList(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	for _, engine := range enginesOr(mariadb) {
		t.Run(engine, func(t *testing.T) {
			spec := harness.Small("list-"+strings.NewReplacer("/", "-", ".", "-").Replace(engine), engine)
			d := s.CreateActive(spec)
			c := s.Credentials(d)
			if n, err := bytesBeforeClose(d, "127.0.0.9"); n != 0 {
				t.Errorf("a blocked address got %d bytes (%v), want none", n, err)
			}
			kept, err := harness.Connect(timeout(t, 10*time.Second), d, c, "127.0.0.1")
			if err != nil {
				t.Fatalf("an allowed address: %v", err)
			}
			defer kept.Close()
			allow(t, s, d, []string{"127.0.0.1", "127.0.0.8/29"})
			removed, err := harness.Connect(timeout(t, time.Second), d, c, "127.0.0.9")
			if err != nil {
				t.Fatalf("a newly allowed address: %v", err)
			}
			defer removed.Close()
			allow(t, s, d, []string{"127.0.0.1"})
			if _, err := removed.ExecContext(timeout(t, 2*time.Second), "SELECT 1"); err == nil {
				t.Error("the session of a removed address lives on")
			}
			if got := one(t, kept, "SELECT 'still here'"); got != "still here" {
				t.Errorf("the other session answered %q", got)
			}
			allow(t, s, d, []string{})
			if _, err := harness.Connect(timeout(t, 2*time.Second), d, c, "127.0.0.1"); err == nil {
				t.Error("an empty list lets 127.0.0.1 in")
			}
		})
	}
}

// allow puts the list and waits, at most a second, until it is in force.
func allow(t *testing.T, s *harness.Server, d harness.Database, list []string) {
	t.Helper()
	begun := time.Now()
	if status, body := s.Call("PUT", d.Path(), map[string]any{"allow_list": list}, nil); status != 200 {
		t.Fatalf("PUT allow_list %v: %d %s", list, status, body)
	}
	s.AwaitStatus(d, "active")
	t.Logf("allow_list %v in force after %s", list, time.Since(begun).Round(time.Millisecond))
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
