package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/testdir"
)

// bench is a gateway on free ports with everything a test needs around it.
type bench struct {
	*Gateway
	t *testing.T
	o Options
}

func newBench(t *testing.T, portCount int) *bench {
	t.Helper()
	testdir.NeedsServers(t)
	if _, err := FindBinary(); err != nil {
		t.Skip(err)
	}
	first := testdir.Ports(t, portCount)
	run := testdir.New(t, "gw")
	b := &bench{t: t, o: Options{
		Dir: filepath.Join(run, "gateway"), RunDir: filepath.Join(run, "run"), PrimaryAddr: local(1), SecondaryAddr: local(2),
		Ports: [2]int{first, first + portCount - 1}, MaxConn: 1000, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
	b.open()
	t.Cleanup(func() {
		b.Close()
		if err := End(context.Background(), b.o.Dir, b.o.RunDir); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) open() {
	b.t.Helper()
	g, err := Open(b.t.Context(), b.o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Gateway = g
}

// reopen does what a new steward does after the old one was killed.
func (b *bench) reopen() {
	b.t.Helper()
	b.Close()
	b.open()
}

func (b *bench) port(i int) int { return b.o.Ports[0] + i }

func (b *bench) set(r Route) {
	b.t.Helper()
	if err := b.Set(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

// pid is the current HAProxy's.
func (b *bench) pid() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		return 0
	}
	return b.current.process.Pid()
}

func allow(list ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, s := range list {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// backend is a server that says its name first, as MySQL's do, then echoes.
func backend(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	return backendAt(t, name, "127.0.77.1:0")
}

func backendAt(t *testing.T, name, address string) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	testdir.Serve(t, l, func(c net.Conn) {
		fmt.Fprintf(c, "%s\n", name)
		io.Copy(c, c)
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// client is a connection from one source address.
type client struct {
	net.Conn
	t *testing.T
}

func connect(t *testing.T, source, gateway string, port int) client {
	t.Helper()
	c, err := dialFrom(t, source, gateway, port)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func dialFrom(t *testing.T, source, gateway string, port int) (client, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}, Timeout: 5 * time.Second}
	conn, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(gateway, strconv.Itoa(port)))
	if err != nil {
		return client{}, err
	}
	t.Cleanup(func() { conn.Close() })
	return client{conn, t}, nil
}

// hello is the first line of the server, or "" when there is none within patience.
func (c client) hello(patience time.Duration) string {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		c.t.Fatal(err)
	}
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := c.Read(b); err != nil || b[0] == '\n' {
			return string(line)
		}
	}
}

// alive reports whether an echo comes back.
func (c client) alive() bool {
	c.t.Helper()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	b := make([]byte, 1)
	_, err := io.ReadFull(c, b)
	return err == nil && b[0] == 'x'
}

// ended reports whether the connection is closed within a second, without a byte.
func (c client) ended() bool {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		c.t.Fatal(err)
	}
	n, err := c.Read(make([]byte, 1))
	return n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}

func (b *bench) expect(source, gateway string, port int, want string) client {
	b.t.Helper()
	c := connect(b.t, source, gateway, port)
	if got := c.hello(2 * time.Second); got != want {
		b.t.Fatalf("%s to %s:%d got %q, want %q", source, gateway, port, got, want)
	}
	return c
}

func (b *bench) expectBlocked(source, gateway string, port int) {
	b.t.Helper()
	c, err := dialFrom(b.t, source, gateway, port)
	if errors.Is(err, syscall.ECONNRESET) {
		return // before connect had returned
	}
	if err != nil || !c.ended() {
		b.t.Fatalf("%s to %s:%d isn't turned away at once", source, gateway, port)
	}
}

// TestServersTellTheGatewayFromOthers: what is let in from this machine's own
// address is never a customer, wherever the customer comes from.
func TestServersTellTheGatewayFromOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	l, err := net.Listen("tcp", "127.0.77.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server := netip.MustParseAddrPort(l.Addr().String())
	b.set(Route{Cluster: 1, Port: b.port(0), Primary: server, Reads: []netip.AddrPort{server}, Allow: allow("0.0.0.0/0")})
	for _, from := range []string{"127.0.0.1", "127.0.77.2", "127.9.9.9"} {
		for _, gateway := range []string{"127.0.0.1", "127.0.0.2"} {
			connect(t, from, gateway, b.port(0))
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if got := netip.MustParseAddrPort(c.RemoteAddr().String()).Addr(); got != netip.MustParseAddr(Source) {
				t.Errorf("a customer from %s by %s looks like %s to the server", from, gateway, got)
			}
			c.Close()
		}
	}
}

// TestWaysIn: no byte that a client sends makes it another client. The gateway
// believes the connection, not a PROXY header (the API's ways in: internal/api).
func TestWaysIn(t *testing.T) {
	t.Parallel()
	t.Run("header_smuggling", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, 4)
		port := b.port(0)
		b.set(Route{Cluster: 1, Port: port, Primary: backend(t, "one"), Allow: allow("127.0.0.1/32")})
		b.expect("127.0.0.1", "127.0.0.1", port, "one")
		for name, header := range map[string]string{
			"in text":   "PROXY TCP4 127.0.0.1 127.0.0.1 40000 5432\r\n",
			"in binary": "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\x9c\x40\x15\x38",
		} {
			c, err := dialFrom(t, "127.0.0.5", "127.0.0.1", port)
			if errors.Is(err, syscall.ECONNRESET) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			_, _ = c.Write([]byte(header)) // it may have been closed by then
			if got := c.hello(2 * time.Second); got != "" {
				t.Errorf("a PROXY header %s lets an unlisted source in: %q", name, got)
			}
			if !c.ended() {
				t.Errorf("a PROXY header %s keeps an unlisted source connected", name)
			}
		}
		b.expect("127.0.0.1", "127.0.0.1", port, "one")
	})
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	if Probe([]netip.Addr{netip.IPv6Loopback()}, 0) != nil {
		t.Skip("no IPv6 here")
	}
	b := newBench(t, 40)
	b.o.SecondaryAddr = netip.IPv6Loopback()
	b.reopen()
	port, one := b.port(0), backend(t, "one")
	r := Route{Cluster: 1, Port: port, Primary: one, Reads: []netip.AddrPort{one}}
	for _, c := range []struct {
		list   string
		v4, v6 bool
	}{{"127.0.0.1/32", true, false}, {"::1/128", false, true}, {"::/0", false, true}, {"0.0.0.0/0", true, true}, {"::ffff:127.0.0.0/104", true, false}} {
		r.Allow = allow(c.list)
		b.set(r)
		for source, in := range map[string]bool{"127.0.0.1": c.v4, "::1": c.v6} {
			if in {
				b.expect(source, source, port, "one")
			} else {
				b.expectBlocked(source, source, port)
			}
		}
	}
}

func TestARefusingServerIsTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	address := net.JoinHostPort("127.0.77.1", strconv.Itoa(testdir.Ports(t, 1)))
	b.set(Route{Cluster: 1, Port: b.port(0), Primary: netip.MustParseAddrPort(address), Allow: allow("127.0.0.1/32")})
	c := connect(t, "127.0.0.1", "127.0.0.1", b.port(0))
	if got := c.hello(150 * time.Millisecond); got != "" {
		t.Fatalf("got %q", got)
	}
	backendAt(t, "restarted", address)
	if got := c.hello(time.Second); got != "restarted" {
		t.Errorf("got %q, want the restarted server", got)
	}
}

func TestKilledHAProxyComesBackWithItsRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	r := Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.1/32")}
	b.set(r)
	for round := range 3 {
		before := b.pid()
		begun := time.Now()
		if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		await.True(t, "another HAProxy", func() bool { pid := b.pid(); return pid != 0 && pid != before })
		b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
		t.Logf("round %d: serves again after %s", round, time.Since(begun))
		b.expectBlocked("127.0.0.5", "127.0.0.1", r.Port)
		select {
		case <-b.Changes():
		case <-time.After(5 * time.Second):
			t.Fatal("the loss of sessions wasn't told")
		}
	}
	// The runtime API of the new one is used from here on.
	r.Allow = allow("127.0.0.5/32")
	b.set(r)
	b.expect("127.0.0.5", "127.0.0.1", r.Port, "one")
}

func TestSetRightAfterAKill(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	for i := range 5 {
		if err := syscall.Kill(b.pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r := Route{Cluster: cluster.ID(i), Port: b.port(i), Primary: one, Allow: allow("127.0.0.1/32")}
		await.True(t, "the route is set", func() bool { return b.Set(t.Context(), r) == nil })
		b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
	}
}

// TestARouteNotInForceIsKept: what isn't in force is known all the same, and
// brought into force.
func TestARouteNotInForceIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	r := Route{Cluster: 1, Port: b.port(0), Primary: backend(t, "one"), Allow: allow("127.0.0.1/32")}
	b.set(r)
	b.mu.Lock()
	delete(b.settled, r.Port)
	b.mu.Unlock()
	if routes, err := b.Routes(t.Context()); err != nil || len(routes) != 1 || routes[0].InForce || !routes[0].Equal(r) {
		t.Errorf("routes %+v, %v", routes, err)
	}
	b.settleRest(t.Context())
	if routes, err := b.Routes(t.Context()); err != nil || len(routes) != 1 || !routes[0].InForce {
		t.Errorf("routes %+v, %v", routes, err)
	}
}

func TestAHungHAProxyIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	b.set(Route{Cluster: 1, Port: b.port(0), Primary: one, Allow: allow("127.0.0.1/32")})
	if err := syscall.Kill(b.pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := b.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.expect("127.0.0.1", "127.0.0.1", b.port(0), "one")
}

func TestANewStewardAdopts(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	r := Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.1/32", "127.0.0.5/32")}
	b.set(r)
	kept, gone := b.expect("127.0.0.1", "127.0.0.1", r.Port, "one"), b.expect("127.0.0.5", "127.0.0.1", r.Port, "one")
	pid := b.pid()
	b.reopen()
	if b.pid() != pid {
		t.Fatalf("process %d was replaced by %d", pid, b.pid())
	}
	if routes, err := b.Routes(t.Context()); err != nil || len(routes) != 1 || !routes[0].Equal(r) {
		t.Fatalf("routes %v, %v", routes, err)
	}
	// A steward that was killed after saving a route, before HAProxy heard of it:
	b.Close()
	r.Allow = allow("127.0.0.1/32")
	if err := b.files().Save(r); err != nil {
		t.Fatal(err)
	}
	b.open()
	if !gone.ended() || !kept.alive() {
		t.Error("what the saved route says isn't in force after a restart")
	}
	b.expectBlocked("127.0.0.5", "127.0.0.1", r.Port)
	// Killed while nobody looked:
	b.Close()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil { // it is this process's child, which no gateway watches
		t.Fatal(err)
	}
	b.open()
	b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
	b.expectBlocked("127.0.0.5", "127.0.0.1", r.Port)
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port)); err == nil {
		c.Close()
		t.Error("the gateway listens after Stop")
	}
	if left, _ := filepath.Glob(filepath.Join(b.o.RunDir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	b.open()
	b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
}

// TestAdoptionAfterAKillHalfWay begins where a steward that was killed in the
// middle of something left off.
func TestAdoptionAfterAKillHalfWay(t *testing.T) {
	t.Parallel()
	one := backend(t, "one")
	setup := func(t *testing.T) (*bench, Route, client) {
		b := newBench(t, 40)
		r := Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.1/32")}
		b.set(r)
		c := b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
		b.Close()
		return b, r, c
	}
	launchAnother := func(b *bench) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, err := b.launch(b.t.Context(), b.current.ports, b.current); err != nil {
			b.t.Fatal(err)
		}
	}
	t.Run("both generations listen", func(t *testing.T) {
		t.Parallel()
		b, r, c := setup(t)
		old := b.current
		launchAnother(b)
		b.open()
		if b.current.generation == old.generation || len(b.older) != 1 {
			t.Fatal("the newer generation isn't the current one")
		}
		b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
		r.Allow = nil
		b.set(r)
		for range 20 {
			b.expectBlocked("127.0.0.1", "127.0.0.1", r.Port)
		}
		if !c.ended() {
			t.Error("the old generation's session lives on")
		}
	})
	t.Run("the old one is drained in part and the new one died", func(t *testing.T) {
		t.Parallel()
		b, r, c := setup(t)
		conn, err := dial(t.Context(), b.current.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.close()
		if _, err := conn.ask("shutdown frontend " + proxyName(primary, r.Port)); err != nil {
			t.Fatal(err)
		}
		b.open()
		b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
		b.expect("127.0.0.1", "127.0.0.2", r.Port, "one")
		if !c.alive() {
			t.Error("the session was dropped")
		}
	})
	t.Run("a route was blanked and not forgotten", func(t *testing.T) {
		t.Parallel()
		b, r, c := setup(t)
		if err := b.files().Save(Route{Cluster: r.Cluster, Port: r.Port}); err != nil {
			t.Fatal(err)
		}
		b.open()
		if !c.ended() {
			t.Error("the session lives on")
		}
		b.expectBlocked("127.0.0.1", "127.0.0.1", r.Port)
		if routes, err := b.Routes(t.Context()); err != nil || len(routes) != 1 || routes[0].Cluster != r.Cluster {
			t.Fatalf("the removal can't be finished: %v, %v", routes, err)
		}
		if err := b.Remove(t.Context(), r.Port); err != nil {
			t.Fatal(err)
		}
		b.reopen()
		if routes, err := b.Routes(t.Context()); err != nil || len(routes) != 0 {
			t.Errorf("routes %v, %v", routes, err)
		}
	})
	t.Run("a torn route file", func(t *testing.T) {
		t.Parallel()
		b, r, _ := setup(t)
		if err := os.WriteFile(b.files().path(r.Port), []byte(`{"Cluster":1,"Po`), 0o600); err != nil {
			t.Fatal(err)
		}
		b.open()
		if routes, err := b.Routes(t.Context()); err != nil || len(routes) != 0 {
			t.Errorf("routes %v, %v", routes, err)
		}
		b.set(r)
		b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
	})
}

func TestAChangedConfigurationReplacesWithoutLosingSessions(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	r := Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.1/32", "127.0.0.5/32")}
	b.set(r)
	kept, gone := b.expect("127.0.0.1", "127.0.0.1", r.Port, "one"), b.expect("127.0.0.5", "127.0.0.1", r.Port, "one")
	pid := b.pid()
	b.o.MaxConn--
	b.reopen()
	if b.pid() == pid {
		t.Fatal("HAProxy with another configuration was kept")
	}
	b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
	r.Allow = r.Allow[:1]
	b.set(r)
	if !gone.ended() || !kept.alive() {
		t.Error("the old generation's sessions aren't ruled by the route")
	}
}

// TestAnOldGenerationThatHangsIsEnded: its sessions can't be ruled any more.
func TestAnOldGenerationThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	r := Route{Cluster: 1, Port: b.port(0), Primary: one, Allow: allow("127.0.0.1/32", "127.0.0.5/32")}
	b.set(r)
	gone := b.expect("127.0.0.5", "127.0.0.1", r.Port, "one")
	old := b.pid()
	b.o.MaxConn--
	b.reopen()
	if err := syscall.Kill(old, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.Allow = r.Allow[:1]
	b.set(r)
	if !gone.ended() {
		t.Error("the session in the hung process lives on")
	}
	b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
}

// TestGrowth fills the first block: open connections live on in the old
// generation, and its sessions are still ended one by one.
func TestGrowth(t *testing.T) {
	t.Parallel()
	b := newBench(t, 100)
	one, two := backend(t, "one"), backend(t, "two")
	r := Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.1/32", "127.0.0.5/32")}
	b.set(r)
	kept, gone := b.expect("127.0.0.1", "127.0.0.1", r.Port, "one"), b.expect("127.0.0.5", "127.0.0.2", r.Port, "one")
	before := b.pid()
	var refused []string
	stop := make(chan struct{})
	var hammer sync.WaitGroup
	hammer.Go(func() { // nobody who connects meanwhile is refused
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.Port))
			if err != nil {
				refused = append(refused, err.Error())
				continue
			}
			if got := (client{c, t}).hello(2 * time.Second); got != "one" {
				refused = append(refused, fmt.Sprintf("got %q", got))
			}
			c.Close()
		}
	})
	for i := 1; i < 30; i++ {
		b.set(Route{Cluster: cluster.ID(i + 1), Port: b.port(i), Primary: two, Allow: allow("127.0.0.1/32")})
	}
	await.True(t, "another generation", func() bool { return b.pid() != before })
	far := Route{Cluster: 99, Port: b.port(90), Primary: two, Allow: allow("127.0.0.1/32")}
	b.set(far) // beyond the second block
	b.expect("127.0.0.1", "127.0.0.1", far.Port, "two")
	close(stop)
	hammer.Wait()
	if len(refused) > 0 {
		t.Errorf("%d connections failed: %v", len(refused), refused[0])
	}
	if err := syscall.Kill(before, 0); err != nil {
		t.Fatalf("the old generation with open sessions: %v", err)
	}
	if !kept.alive() || !gone.alive() {
		t.Fatal("growing dropped a session")
	}
	await.True(t, "the sessions of both generations are counted", func() bool {
		got, err := b.Sessions(t.Context(), r.Port)
		return err == nil && got == (Count{Primary: 1, Reads: 1}) // the hammer's last one ends a moment later
	})
	// Not through this steward's memory alone:
	b.reopen()
	r.Allow = r.Allow[:1]
	b.set(r)
	if !gone.ended() || !kept.alive() {
		t.Error("a session in the old generation must end when its source is taken off, others stay")
	}
	r.Primary = two
	b.set(r)
	if !kept.ended() {
		t.Error("a session in the old generation must end with its server")
	}
	b.endDrained(t.Context())
	await.True(t, "the old generation has ended", func() bool { return syscall.Kill(before, 0) != nil })
	b.expect("127.0.0.1", "127.0.0.1", r.Port, "two")
}

func TestAPortOfAnotherProgramIsLeftOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	b.Close()
	if err := End(t.Context(), b.o.Dir, b.o.RunDir); err != nil {
		t.Fatal(err)
	}
	port := b.port(3)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	b.open()
	one := backend(t, "one")
	b.set(Route{Cluster: 1, Port: b.port(2), Primary: one, Allow: allow("127.0.0.1/32")})
	b.expect("127.0.0.1", "127.0.0.1", b.port(2), "one")
	r := Route{Cluster: 2, Port: port, Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.1/32")}
	err = b.Set(t.Context(), r)
	want := fmt.Sprintf("port %d is in use by another program; free it or change gateway.ports", port)
	if taken, ok := errors.AsType[*PortError](err); !ok || taken.Port != port || taken.Error() != want {
		t.Fatalf("got %v, want %q", err, want)
	}
	if routes, _ := b.Routes(t.Context()); len(routes) != 1 {
		t.Errorf("routes %v", routes)
	}
	testdir.Free(l)
	b.set(r)
	b.expect("127.0.0.1", "127.0.0.1", port, "one")
	b.expect("127.0.0.1", "127.0.0.2", port, "one")
}

// TestABlockOfOtherPrograms: ports of other programs are told in one line, there are
// spare ones beyond them, and they are usable again once they are free.
func TestABlockOfOtherPrograms(t *testing.T) {
	t.Parallel()
	const taken = blockSize - 1
	b := newBench(t, 2*blockSize)
	b.Close()
	if err := End(t.Context(), b.o.Dir, b.o.RunDir); err != nil {
		t.Fatal(err)
	}
	var others []net.Listener
	for i := range taken {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.port(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		others = append(others, l)
	}
	var log bytes.Buffer
	b.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b.open()
	lines := strings.Count(log.String(), "left out")
	if want := fmt.Sprintf("%d-%d", b.port(0), b.port(taken-1)); lines != 1 || !strings.Contains(log.String(), want) {
		t.Errorf("not told once of %s:\n%s", want, log.String())
	}
	for i, want := range map[int]bool{0: false, taken - 1: false, taken: true, blockSize: true} {
		if err := b.Usable(b.port(i)); (err == nil) != want {
			t.Errorf("port %d of the range: %v", i, err)
		}
	}
	one, before := backend(t, "one"), b.pid()
	b.set(Route{Cluster: 1, Port: b.port(blockSize), Primary: one, Allow: allow("127.0.0.1/32")})
	b.expect("127.0.0.1", "127.0.0.1", b.port(blockSize), "one")
	if b.pid() != before {
		t.Error("there was no spare port beyond those that are taken")
	}
	testdir.Free(others[0])
	if err := b.Usable(b.port(0)); err != nil {
		t.Error("a port that was freed:", err)
	}
	b.set(Route{Cluster: 2, Port: b.port(0), Primary: one, Allow: allow("127.0.0.1/32")})
	b.expect("127.0.0.1", "127.0.0.1", b.port(0), "one")
}

func TestAddressesOfOtherMachinesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Options{
		Dir: t.TempDir(), RunDir: "/tmp", PrimaryAddr: netip.MustParseAddr("192.0.2.77"), SecondaryAddr: local(2), Ports: [2]int{1, 2},
	})
	if err == nil || !strings.Contains(err.Error(), "192.0.2.77 is not one of this machine") {
		t.Errorf("got %v", err)
	}
}

func TestLongLists(t *testing.T) {
	t.Parallel()
	b := newBench(t, 40)
	one := backend(t, "one")
	r := Route{Cluster: 1, Port: b.port(0), Primary: one, Allow: allow("127.0.0.1/32")}
	for i := range 2000 {
		r.Allow = append(r.Allow, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), 32))
	}
	begun := time.Now()
	b.set(r)
	t.Logf("%d entries after %s", len(r.Allow), time.Since(begun))
	kept := b.expect("127.0.0.1", "127.0.0.1", r.Port, "one")
	r.Allow = r.Allow[:1]
	b.set(r)
	b.mu.Lock()
	conn, err := dial(t.Context(), b.current.socket)
	b.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	text, err := conn.ask("show acl " + aclName(r.Port, 4))
	if err != nil || fmt.Sprint(parseACL(text)) != "[127.0.0.1/32]" {
		t.Errorf("HAProxy's list is %q, %v", text, err)
	}
	if !kept.alive() {
		t.Error("the session of an address that stayed was ended")
	}
}

// TestNothingRunsAsRoot looks at what HAProxy became.
func TestNothingRunsAsRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	b := newBench(t, 40)
	pid := strconv.Itoa(b.pid())
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "uid=,gid=", "-p", pid).Output()
	uid, gid, ownErr := ownUser()
	if ownErr != nil {
		t.Fatal(ownErr)
	}
	if want := fmt.Sprint(uid, gid); err != nil || strings.Join(strings.Fields(string(out)), " ") != want || uid == 0 || gid == 0 {
		t.Errorf("runs as %q, %v; want %s", out, err, want)
	}
	root, err := os.Readlink("/proc/" + pid + "/root")
	if err != nil || root != filepath.Join(b.o.Dir, jailDir) {
		t.Errorf("its root is %q, %v", root, err)
	}
}
