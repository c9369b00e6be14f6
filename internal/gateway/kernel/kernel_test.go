package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"steward/internal/gateway"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

// place is a gateway between a machine of clients and one of servers.
type place struct {
	*Gateway
	t                testing.TB
	o                Options
	clients, servers *testnet.Host
	n                int
	log              *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var places atomic.Int32

// newPlace makes one: its gateway is 10.200.n.1 and 10.200.n.2, clients have all of 10.201.n.0/24,
// servers are at 10.100.n.2.
func newPlace(t testing.TB) *place {
	t.Helper()
	testnet.Need(t)
	testnet.Sysctl(t, "ipv4/ip_forward", "1")
	n := int(places.Add(1))
	p := &place{t: t, n: n, log: &lockedBuffer{}}
	prefix := func(format string) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf(format, n)) }
	p.clients = testnet.NewHost(t, fmt.Sprintf("c%d", n), prefix("10.200.%d.1/24"), prefix("10.200.%d.100/24"))
	testnet.Address(t, p.clients.Outside, prefix("10.200.%d.2/24"))
	p.clients.AnyOf(prefix("10.201.%d.0/24"), prefix("10.200.%d.100/24").Addr())
	p.servers = testnet.NewHost(t, fmt.Sprintf("s%d", n), prefix("10.100.%d.1/24"), prefix("10.100.%d.2/24"))
	testnet.Sysctl(t, fmt.Sprintf("ipv4/conf/s%d/route_localnet", n), "1")
	p.o = Options{
		Dir: t.TempDir(), PrimaryAddr: prefix("10.200.%d.1/24").Addr(), SecondaryAddr: prefix("10.200.%d.2/24").Addr(),
		Ports: [2]int{21000, 21999}, Namespace: func(s netip.AddrPort) string {
			if s.Addr().IsLoopback() {
				return ""
			}
			return p.servers.Path()
		},
		Logger: slog.New(slog.NewTextHandler(io.MultiWriter(p.log, t.Output()), nil)),
	}
	p.open()
	t.Cleanup(func() {
		p.Close()
		if err := End(t.Context(), p.o); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return p
}

func (p *place) open() {
	p.t.Helper()
	g, err := Open(p.t.Context(), p.o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.Gateway = g
}

func (p *place) set(r gateway.Route) {
	p.t.Helper()
	if err := p.Set(p.t.Context(), r); err != nil {
		p.t.Fatal(err)
	}
}

// server says its name and whom it sees, then echoes.
func (p *place) server(name string, port int) netip.AddrPort {
	p.t.Helper()
	var l net.Listener
	p.servers.Do(func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("10.100.%d.2:%d", p.n, port))
		return err
	})
	serve(p.t, l, name)
	return netip.MustParseAddrPort(l.Addr().String())
}

func serve(t testing.TB, l net.Listener, name string) {
	testdir.Serve(t, l, func(c net.Conn) {
		from := netip.MustParseAddrPort(c.RemoteAddr().String()).Addr()
		fmt.Fprintf(c, "%s sees %s\n", name, from)
		io.Copy(c, c)
	})
}

// patience is how long is waited for what is to come; nothing is asserted of it.
const patience = 20 * time.Second

type client struct {
	net.Conn
	t testing.TB
}

// dial connects from one of the clients' addresses, by its last byte; 0 for one of this machine's own.
func (p *place) dial(source int, to netip.Addr, port int) (client, error) {
	address := netip.AddrPortFrom(to, uint16(port)).String()
	var conn net.Conn
	var err error
	if source == 0 {
		conn, err = net.DialTimeout("tcp", address, 2*time.Second)
	} else {
		p.clients.Do(func() error {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(10, 201, byte(p.n), byte(source))}, Timeout: 2 * time.Second}
			conn, err = d.Dial("tcp", address)
			return nil
		})
	}
	if err != nil {
		return client{}, err
	}
	p.t.Cleanup(func() { conn.Close() })
	return client{conn, p.t}, nil
}

func (c client) hello(within time.Duration) string {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(within))
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := c.Read(b); err != nil || b[0] == '\n' {
			return string(line)
		}
	}
}

func (c client) alive() bool {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	b := make([]byte, 1)
	_, err := io.ReadFull(c, b)
	return err == nil && b[0] == 'x'
}

// ended reports whether the connection is closed, without a byte.
func (c client) ended() bool {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(make([]byte, 1))
	return n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}

func (p *place) expect(source int, to netip.Addr, port int, want string) client {
	p.t.Helper()
	c, err := p.dial(source, to, port)
	if err != nil {
		p.t.Fatalf("from %d to %s:%d: %v", source, to, port, err)
	}
	if got := c.hello(patience); got != want {
		p.t.Fatalf("from %d to %s:%d got %q, want %q", source, to, port, got, want)
	}
	return c
}

func (p *place) blocked(source int, to netip.Addr, port int) {
	p.t.Helper()
	begun := time.Now()
	c, err := p.dial(source, to, port)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
		if took := time.Since(begun); took > 900*time.Millisecond { // a packet that is dropped is sent again after a second
			p.t.Errorf("refused after %s", took)
		}
		return
	}
	if err != nil || !c.ended() {
		p.t.Fatalf("from %d to %s:%d isn't turned away at once: %v", source, to, port, err)
	}
}

// from is how a server sees a client.
func (p *place) from(source int) string { return fmt.Sprintf("10.201.%d.%d", p.n, source) }

// allow lists clients, by their last bytes.
func (p *place) allow(sources ...int) (list []netip.Prefix) {
	for _, s := range sources {
		list = append(list, netip.MustParsePrefix(p.from(s)+"/32"))
	}
	return list
}

func TestServersSeeTrueAddresses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	own := netip.PrefixFrom(p.o.PrimaryAddr, 32)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: append(p.allow(7), own)}
	p.set(r)
	for _, end := range []netip.Addr{p.o.PrimaryAddr, p.o.SecondaryAddr} {
		p.expect(7, end, 21000, "one sees "+p.from(7))
		p.blocked(8, end, 21000)
		p.blocked(7, end, 21001)
	}
	p.expect(0, p.o.PrimaryAddr, 21000, "one sees "+p.o.PrimaryAddr.String())
	if got, err := p.Sessions(t.Context(), 21000); err != nil || got != (gateway.Count{Primary: 2, Reads: 1}) {
		t.Errorf("counted %+v, %v", got, err)
	}
}

func TestClientsOnLoopback(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Close()
	p.o.PrimaryAddr, p.o.SecondaryAddr = netip.AddrFrom4([4]byte{127, 0, byte(p.n), 1}), netip.AddrFrom4([4]byte{127, 0, byte(p.n), 2})
	p.open()
	one := p.server("one", 5001)
	p.set(gateway.Route{Cluster: 1, Port: 21000, Primary: one, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.PrefixFrom(p.o.PrimaryAddr, 32)}})
	want := fmt.Sprintf("one sees 10.100.%d.1", p.n)
	p.expect(0, p.o.PrimaryAddr, 21000, want)
	p.set(gateway.Route{Cluster: 1, Port: 21000, Primary: one, Allow: []netip.Prefix{netip.MustParsePrefix("127.9.9.9/32")}})
	p.blocked(0, p.o.PrimaryAddr, 21000)
}

func TestRemovedAddressesLoseTheirSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var asked []Session
	var mu sync.Mutex
	p.Close()
	p.o.End = func(_ context.Context, list []Session) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, list...)
	}
	p.open()
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7, 8)}
	neighbour := gateway.Route{Cluster: 2, Port: 21001, Primary: one, Allow: p.allow(7, 8)}
	p.set(r)
	p.set(neighbour)
	kept, other := p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7)), p.expect(8, p.o.PrimaryAddr, 21001, "one sees "+p.from(8))
	gone, gone2 := p.expect(8, p.o.PrimaryAddr, 21000, "one sees "+p.from(8)), p.expect(8, p.o.SecondaryAddr, 21000, "one sees "+p.from(8))
	begun := time.Now()
	r.Allow = p.allow(7)
	p.set(r)
	if !gone.ended() || !gone2.ended() {
		t.Error("a session of a removed address lives on")
	}
	if took := time.Since(begun); took > time.Second {
		t.Errorf("sessions ended after %s", took)
	}
	if !kept.alive() || !other.alive() {
		t.Error("a session was ended that had nothing to do with it")
	}
	mu.Lock()
	if len(asked) != 2 || asked[0].Client.Addr().String() != p.from(8) || asked[0].Server != one || asked[0].Port != 21000 {
		t.Errorf("asked to end %+v", asked)
	}
	mu.Unlock()
	if err := p.Remove(t.Context(), 21000); err != nil {
		t.Fatal(err)
	}
	if !kept.ended() || !other.alive() {
		t.Error("removing a route must end its sessions and no others")
	}
	p.blocked(7, p.o.PrimaryAddr, 21000)
	p.blocked(7, p.o.SecondaryAddr, 21000)
	if routes, err := p.Routes(t.Context()); err != nil || len(routes) != 1 {
		t.Errorf("routes %v, %v", routes, err)
	}
}

// TestRemovedAddressesHearSlowServers: the server of a session whose address is removed has time for its own words, during which the address can
// neither come back nor send anything, and routes are set; what it hasn't ended by then is cut, whatever became of the route.
func TestRemovedAddressesHearSlowServers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Close()
	asked, answer := make(chan time.Time), make(chan struct{})
	p.o.End = func(ctx context.Context, _ []Session) {
		until, _ := ctx.Deadline()
		select {
		case asked <- until:
			<-answer
		case <-t.Context().Done(): // the test has ended
		}
	}
	p.open()
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7, 8)}
	wider := r.Clone()
	wider.Allow = p.allow(7, 9)
	narrower := r.Clone()
	narrower.Allow = p.allow(7)
	for what, meanwhile := range map[string]gateway.Route{
		"another database's route": {Cluster: 2, Port: 21001, Primary: one, Allow: p.allow(7)},
		"a wider route":            wider,
	} {
		p.set(r)
		gone := p.expect(8, p.o.PrimaryAddr, 21000, "one sees "+p.from(8))
		begun := time.Now()
		narrowed, set := make(chan error, 1), make(chan error, 1)
		go func() { narrowed <- p.Set(t.Context(), narrower) }()
		if until := <-asked; until.Sub(begun) < wordsWithin {
			t.Errorf("%s: the server is given %s", what, until.Sub(begun))
		}
		p.blocked(8, p.o.PrimaryAddr, 21000)
		if _, err := gone.Write([]byte("x")); err != nil { // it doesn't arrive: the server would have said it again, see ended
			t.Error(what, err)
		}
		go func() { set <- p.Set(t.Context(), meanwhile) }()
		select {
		case err := <-set:
			if err != nil {
				t.Error(what, err)
			}
		case <-time.After(patience):
			t.Errorf("%s: it waits for a server's words", what)
		}
		answer <- struct{}{}
		if err := <-narrowed; err != nil {
			t.Error(what, err)
		}
		if !gone.ended() {
			t.Errorf("%s: the session lives on", what)
		}
	}
}
