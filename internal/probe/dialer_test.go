package probe_test

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"steward/internal/monitor"
	"steward/internal/probe"
)

// TestDialer: an address is judged when it is connected to, whatever name led there, and a guarded port in any network.
func TestDialer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	port := l.Addr().(*net.TCPAddr).Port
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	guard := []monitor.Guard{{First: uint16(port), Last: uint16(port), TCP: true}}
	for name, c := range map[string]struct {
		networks monitor.Networks
		host     string
		permits  bool
		connects bool
	}{
		"allowed":         {monitor.Networks{Regions: map[string][]netip.Prefix{"imports": loopback}}, "127.0.0.1", true, true},
		"allowed name":    {monitor.Networks{Regions: map[string][]netip.Prefix{"imports": loopback}}, "localhost", true, true},
		"not allowed":     {monitor.Networks{}, "127.0.0.1", false, false},
		"name leads in":   {monitor.Networks{}, "localhost", true, false},
		"other's network": {monitor.Networks{Regions: map[string][]netip.Prefix{"another": loopback}}, "127.0.0.1", false, false},
		"in disguise":     {monitor.Networks{}, "::ffff:127.0.0.1", false, false},
		"forbidden":       {monitor.Networks{Regions: map[string][]netip.Prefix{"imports": loopback}, Forbidden: loopback}, "127.0.0.1", false, false},
		"guarded port":    {monitor.Networks{Regions: map[string][]netip.Prefix{"imports": loopback}, Guards: guard}, "127.0.0.1", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := probe.Dialer{Networks: &c.networks, Region: "imports", Timeout: 10 * time.Second}
			if d.Permits(c.host, port) != c.permits {
				t.Errorf("permits is %t", !c.permits)
			}
			conn, err := d.Dial(t.Context(), c.host, port)
			if err == nil {
				conn.Close()
			}
			if (err == nil) != c.connects || !c.connects && !errors.Is(err, probe.ErrBlocked) {
				t.Errorf("connecting ends with %v", err)
			}
		})
	}
}
