package hold

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"steward/internal/cluster"
	"steward/internal/gateway"
	"steward/internal/testdir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o Options) (*Holder, int) {
	t.Helper()
	port := testdir.Ports(t, 1)
	o.PrimaryAddr, o.SecondaryAddr = netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	h := New(o)
	if err := h.Listen(port); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h, port
}

func everybody() []netip.Prefix { return []netip.Prefix{gateway.Everybody()} }

func dial(t *testing.T, port int) net.Conn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	return c
}

// echo is a server that answers with what it gets.
func echo(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.77.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testdir.Serve(t, l, func(c net.Conn) { io.Copy(c, c) })
	return netip.MustParseAddrPort(l.Addr().String())
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// TestAStrikeIsJoined: all who came find the server, and what they said before.
func TestAStrikeIsJoined(t *testing.T) {
	t.Parallel()
	const strike = 50
	var told, most atomic.Int32
	h, port := start(t, Options{Waiting: func(_, held int) {
		told.Add(1)
		if int32(held) > most.Load() {
			most.Store(int32(held))
		}
	}})
	r := gateway.Route{Cluster: 1, Port: port, Allow: everybody()}
	h.Set(r)
	var all []net.Conn
	for range strike {
		c := dial(t, port)
		if _, err := c.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	await(t, "all are held", func() bool { return h.Held(port) == strike })
	if told.Load() != strike || most.Load() != strike {
		t.Errorf("told %d times, of %d at most", told.Load(), most.Load())
	}
	// Who gives up waits no more.
	all[0].Close()
	await(t, "one gave up", func() bool { return h.Held(port) == strike-1 })
	r.Primary = echo(t)
	h.Set(r)
	for _, c := range all[1:] {
		b := make([]byte, 5)
		if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
			t.Fatalf("got %q, %v", b, err)
		}
	}
	if h.Held(port) != 0 {
		t.Error("joined connections are held")
	}
	// An end of input is passed on, both ways.
	_ = all[1].(*net.TCPConn).CloseWrite()
	if _, err := all[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end of input: %v", err)
	}
	h.Remove(port)
	if _, err := all[2].Read(make([]byte, 1)); err == nil {
		t.Error("a session outlived its port")
	}
}

func TestMoreThanCanBeHeld(t *testing.T) {
	t.Parallel()
	h, port := start(t, Options{Most: 1})
	h.Set(gateway.Route{Cluster: 1, Engine: cluster.PostgreSQL, Port: port, Allow: everybody()})
	dial(t, port)
	await(t, "one is held", func() bool { return h.Held(port) == 1 })
	if got, err := io.ReadAll(dial(t, port)); err != nil || len(got) == 0 || got[0] != 'E' {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestAServerThatRefusesIsTriedAgain(t *testing.T) {
	t.Parallel()
	h, port := start(t, Options{})
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.77.1"), uint16(testdir.Ports(t, 1)))
	h.Set(gateway.Route{Cluster: 1, Port: port, Primary: at, Allow: everybody()})
	c := dial(t, port)
	await(t, "it is held", func() bool { return h.Held(port) == 1 })
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

func TestStrangersAreReset(t *testing.T) {
	t.Parallel()
	woken := false
	h, port := start(t, Options{Waiting: func(int, int) { woken = true }})
	h.Set(gateway.Route{Cluster: 1, Port: port, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.9/32")}})
	c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err == nil { // else it was reset before that returned
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a stranger got %v", err)
	}
	h.Close()
	if woken {
		t.Error("a stranger woke somebody")
	}
}
