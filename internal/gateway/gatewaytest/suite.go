// Package gatewaytest says what every gateway must do, whatever leads the connections.
package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/gateway"
	"steward/internal/testdir"
)

// Gateway is what host, app and metrics ask of one.
type Gateway interface {
	Set(ctx context.Context, r gateway.Route) error
	Remove(ctx context.Context, port int) error
	Usable(port int) error
	Routes(ctx context.Context) ([]gateway.Recorded, error)
	Sessions(ctx context.Context, port int) (gateway.Count, error)
	Ensure(ctx context.Context) error
	Close()
	Stop(ctx context.Context) error
}

// Place is where a gateway stands: its addresses, clients and servers around it.
type Place interface {
	// Open opens the gateway, each time on the same folder.
	Open(t *testing.T) Gateway
	// Ends are the addresses for writes and for reads, First the first of a hundred ports.
	Ends() (primary, reads netip.Addr)
	First() int
	// Source is one of more than a hundred addresses of clients, in a network of 256 that begins with 0.
	Source(i int) netip.Addr
	// Dial connects from such an address.
	Dial(source int, to netip.AddrPort) (net.Conn, error)
	// Listen listens as a server does that the gateway leads to.
	Listen(t *testing.T) net.Listener
}

// Run tries a gateway. newPlace makes a place that is the test's own, and cleans up after it.
func Run(t *testing.T, newPlace func(t *testing.T) Place) {
	for name, test := range map[string]func(*bench){
		"only listed sources get in":                   onlyListed,
		"removed sources lose their sessions":          removedSources,
		"changed servers end sessions and hold others": changedServers,
		"a port of another cluster starts afresh":      anotherCluster,
		"who sets a route may go":                      whoSetsMayGo,
		"a new steward adopts":                         adoption,
		"many sessions end":                            manySessions,
		"long lists":                                   longLists,
		"concurrent changes":                           concurrent,
		"one source leaves others room":                room,
		"a port of another program":                    anotherProgram,
		"no header makes another client":               headers,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{Place: newPlace(t), t: t}
			b.open()
			t.Cleanup(func() { b.Close() })
			test(b)
		})
	}
}

type bench struct {
	Place
	Gateway
	t *testing.T
}

func (b *bench) open() { b.Gateway = b.Place.Open(b.t) }

func (b *bench) port(i int) int      { return b.First() + i }
func (b *bench) primary() netip.Addr { p, _ := b.Ends(); return p }
func (b *bench) reads() netip.Addr   { _, r := b.Ends(); return r }

func (b *bench) set(r gateway.Route) {
	b.t.Helper()
	if err := b.Set(b.t.Context(), r); err != nil {
		b.t.Fatal(err)
	}
}

// allow lists sources.
func (b *bench) allow(sources ...int) (list []netip.Prefix) {
	for _, s := range sources {
		list = append(list, netip.PrefixFrom(b.Source(s), b.Source(s).BitLen()))
	}
	return list
}

// server says its name first, as MySQL's do, then echoes.
func (b *bench) server(name string) netip.AddrPort {
	b.t.Helper()
	l := b.Listen(b.t)
	testdir.Serve(b.t, l, func(c net.Conn) {
		fmt.Fprintf(c, "%s\n", name)
		_, _ = io.Copy(c, c)
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// patience is how long is waited for what is to come; nothing is asserted of it.
const patience = 20 * time.Second

type client struct{ net.Conn }

func (b *bench) connect(source int, to netip.Addr, port int) (client, error) {
	c, err := b.Dial(source, netip.AddrPortFrom(to, uint16(port)))
	if err == nil {
		b.t.Cleanup(func() { c.Close() })
	}
	return client{c}, err
}

// hello is the first line of the server, or "" when there is none within a time.
func (c client) hello(within time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(within))
	var line []byte
	for one := make([]byte, 1); ; line = append(line, one[0]) {
		if _, err := c.Read(one); err != nil || one[0] == '\n' {
			return string(line)
		}
	}
}

func (c client) alive() bool {
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	one := make([]byte, 1)
	_, err := io.ReadFull(c, one)
	return err == nil && one[0] == 'x'
}

// ended reports whether the connection is closed, without a byte.
func (c client) ended() bool {
	_ = c.SetReadDeadline(time.Now().Add(patience))
	n, err := c.Read(make([]byte, 1))
	return n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET))
}

func (b *bench) expect(source int, to netip.Addr, port int, want string) client {
	b.t.Helper()
	c, err := b.connect(source, to, port)
	if err != nil {
		b.t.Fatalf("%s to %s:%d: %v", b.Source(source), to, port, err)
	}
	if got := c.hello(patience); got != want {
		b.t.Fatalf("%s to %s:%d got %q, want %q", b.Source(source), to, port, got, want)
	}
	return c
}

// blocked: before the connection is there, or right after.
func (b *bench) blocked(source int, to netip.Addr, port int) {
	b.t.Helper()
	c, err := b.connect(source, to, port)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNREFUSED) {
		return
	}
	if err != nil || !c.ended() {
		b.t.Fatalf("%s to %s:%d isn't turned away at once: %v", b.Source(source), to, port, err)
	}
}

func onlyListed(b *bench) {
	port, one, two := b.port(0), b.server("one"), b.server("two")
	b.blocked(1, b.primary(), port)
	r := gateway.Route{Cluster: 1, Port: port, Primary: one, Reads: []netip.AddrPort{two}, Allow: b.allow(1)}
	b.set(r)
	b.expect(1, b.primary(), port, "one")
	b.expect(1, b.reads(), port, "two")
	for _, end := range []netip.Addr{b.primary(), b.reads()} {
		b.blocked(5, end, port)
		b.blocked(1, end, port+1)
	}
	r.Allow = []netip.Prefix{netip.PrefixFrom(b.Source(4), 31)}
	b.set(r)
	b.expect(5, b.primary(), port, "one")
	b.blocked(1, b.primary(), port)
	b.blocked(6, b.primary(), port)
	r.Allow = []netip.Prefix{gateway.Everybody()}
	b.set(r)
	b.expect(99, b.primary(), port, "one")
	r.Allow = []netip.Prefix{netip.MustParsePrefix("::/0")}
	b.set(r)
	b.blocked(99, b.primary(), port)
	r.Allow = nil
	b.set(r)
	b.blocked(1, b.primary(), port)
	if err := b.Set(b.t.Context(), gateway.Route{Port: port, Allow: []netip.Prefix{{}}}); err == nil {
		b.t.Error("an invalid range was accepted")
	}
}

func removedSources(b *bench) {
	one := b.server("one")
	r := gateway.Route{
		Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one},
		Allow: append(b.allow(1, 2), netip.PrefixFrom(b.Source(16), 28)),
	}
	neighbour := gateway.Route{Cluster: 2, Port: b.port(1), Primary: one, Reads: []netip.AddrPort{one}, Allow: []netip.Prefix{gateway.Everybody()}}
	b.set(r)
	b.set(neighbour)
	kept := []client{
		b.expect(1, b.primary(), r.Port, "one"), b.expect(1, b.reads(), r.Port, "one"), b.expect(2, b.primary(), neighbour.Port, "one"),
	}
	var gone []client
	for _, source := range []int{17, 18, 2} {
		gone = append(gone, b.expect(source, b.primary(), r.Port, "one"), b.expect(source, b.reads(), r.Port, "one"))
	}
	narrow := b.expect(19, b.primary(), r.Port, "one")
	if got, err := b.Sessions(b.t.Context(), r.Port); err != nil || got != (gateway.Count{Primary: 5, Reads: 4}) {
		b.t.Errorf("counted %+v, %v", got, err)
	}
	r.Allow = b.allow(1, 19)
	b.set(r)
	for _, c := range gone {
		if !c.ended() {
			b.t.Errorf("the session of %s lives on", c.LocalAddr())
		}
	}
	for _, c := range append(kept, narrow) {
		if !c.alive() {
			b.t.Errorf("the session of %s was ended", c.LocalAddr())
		}
	}
	if err := b.Remove(b.t.Context(), r.Port); err != nil {
		b.t.Fatal(err)
	}
	if !kept[0].ended() || !narrow.ended() || !kept[2].alive() {
		b.t.Error("removing a route must end its sessions and no others")
	}
	b.blocked(1, b.primary(), r.Port)
	if routes, err := b.Routes(b.t.Context()); err != nil || len(routes) != 1 || !routes[0].Equal(neighbour) {
		b.t.Errorf("routes %v, %v", routes, err)
	}
	if err := b.Remove(b.t.Context(), r.Port); err != nil {
		b.t.Errorf("removing what isn't there: %v", err)
	}
}

func changedServers(b *bench) {
	one, two, three := b.server("one"), b.server("two"), b.server("three")
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{two, three}, Allow: b.allow(1)}
	b.set(r)
	write := b.expect(1, b.primary(), r.Port, "one")
	readers := map[string]client{}
	for tries := 0; len(readers) < 2 && tries < 50; tries++ {
		c, err := b.connect(1, b.reads(), r.Port)
		if err != nil {
			b.t.Fatal(err)
		}
		readers[c.hello(patience)] = c
	}
	if readers["two"].Conn == nil || readers["three"].Conn == nil {
		b.t.Fatalf("reads went to %v", readers)
	}
	// The primary is lost: its sessions end, new ones wait.
	lost := r
	lost.Primary = netip.AddrPort{}
	b.set(lost)
	if !write.ended() {
		b.t.Error("a session of the lost primary lives on")
	}
	b.blocked(2, b.primary(), r.Port)
	// A replica takes over: it no longer serves reads.
	r.Primary, r.Reads = two, []netip.AddrPort{three}
	const soon = 500 * time.Millisecond
	waited := b.heldUntil(r, "two")
	for range 4 { // another may be quicker on a busy machine; who waits to try again is never
		if waited <= soon {
			break
		}
		b.set(lost)
		waited = b.heldUntil(r, "two")
	}
	if waited > soon {
		b.t.Errorf("a held connection waited %s after the switch", waited)
	}
	if !readers["two"].ended() || !readers["three"].alive() {
		b.t.Error("only the session of the replica that was promoted must end")
	}
	for range 4 {
		b.expect(1, b.reads(), r.Port, "three")
	}
	b.expect(1, b.primary(), r.Port, "two")
}

// heldUntil is how long a connection waits from the moment when a route without a primary has one again.
func (b *bench) heldUntil(r gateway.Route, primary string) time.Duration {
	b.t.Helper()
	held, err := b.connect(1, b.primary(), r.Port)
	if err != nil {
		b.t.Fatal(err)
	}
	if got := held.hello(200 * time.Millisecond); got != "" {
		b.t.Fatalf("got %q without a primary", got)
	}
	begun := time.Now()
	b.set(r)
	if got := held.hello(patience); got != primary {
		b.t.Fatalf("the held connection got %q", got)
	}
	return time.Since(begun)
}

func anotherCluster(b *bench) {
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: b.server("one"), Allow: b.allow(1)}
	b.set(r)
	old := b.expect(1, b.primary(), r.Port, "one")
	r.Cluster = 2 // the same address and list
	b.set(r)
	if !old.ended() {
		b.t.Error("a session of the former cluster lives on")
	}
	b.expect(1, b.primary(), r.Port, "one")
}

func whoSetsMayGo(b *bench) {
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: b.server("one"), Allow: b.allow(5)}
	b.set(r)
	gone, cancel := context.WithCancel(b.t.Context())
	cancel()
	r.Allow = b.allow(1)
	if err := b.Set(gone, r); err != nil {
		b.t.Fatal(err)
	}
	if routes, err := b.Routes(b.t.Context()); err != nil || len(routes) != 1 || !routes[0].InForce {
		b.t.Errorf("routes %+v, %v", routes, err)
	}
	b.expect(1, b.primary(), r.Port, "one")
	b.blocked(5, b.primary(), r.Port)
}

func adoption(b *bench) {
	one := b.server("one")
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Allow: b.allow(1, 5)}
	b.set(r)
	kept := b.expect(1, b.primary(), r.Port, "one")
	b.Close()
	if !kept.alive() {
		b.t.Error("a session ended with steward")
	}
	b.expect(1, b.primary(), r.Port, "one")
	b.blocked(6, b.primary(), r.Port)
	b.open()
	if err := b.Ensure(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if routes, err := b.Routes(b.t.Context()); err != nil || len(routes) != 1 || !routes[0].Equal(r) || !routes[0].InForce {
		b.t.Fatalf("routes %v, %v", routes, err)
	}
	if !kept.alive() {
		b.t.Error("a session ended with the adoption")
	}
	r.Allow = b.allow(5)
	b.set(r)
	if !kept.ended() {
		b.t.Error("a session of before the restart can't be ended")
	}
	last := b.expect(5, b.primary(), r.Port, "one")
	if err := b.Stop(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	if !last.ended() {
		b.t.Error("a session outlived the gateway")
	}
	b.blocked(5, b.primary(), r.Port)
	b.open()
	b.expect(5, b.primary(), r.Port, "one")
}

func manySessions(b *bench) {
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: b.server("one"), Allow: b.allow(1, 5)}
	b.set(r)
	var gone []client
	for range 100 {
		gone = append(gone, b.expect(5, b.primary(), r.Port, "one"))
	}
	kept := b.expect(1, b.primary(), r.Port, "one")
	r.Allow = b.allow(1)
	begun := time.Now()
	b.set(r)
	b.t.Logf("ended %d sessions in %s", len(gone), time.Since(begun))
	for _, c := range gone {
		if !c.ended() {
			b.t.Fatal("a session lives on")
		}
	}
	if !kept.alive() {
		b.t.Error("the other session was ended")
	}
}

func longLists(b *bench) {
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: b.server("one"), Allow: b.allow(1)}
	for i := range 1000 {
		r.Allow = append(r.Allow, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16 + byte(i>>8), byte(i), 1}), 32))
	}
	begun := time.Now()
	b.set(r)
	b.t.Logf("%d entries after %s", len(r.Allow), time.Since(begun))
	kept := b.expect(1, b.primary(), r.Port, "one")
	b.blocked(2, b.primary(), r.Port)
	slices.Reverse(r.Allow)
	r.Allow = append(r.Allow, b.allow(2)...)
	b.set(r)
	b.expect(2, b.primary(), r.Port, "one")
	r.Allow = b.allow(1)
	b.set(r)
	b.blocked(2, b.primary(), r.Port)
	if !kept.alive() {
		b.t.Error("the session of an address that stayed was ended")
	}
}

func concurrent(b *bench) {
	one := b.server("one")
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for _, list := range [][]netip.Prefix{nil, b.allow(5), b.allow(1)} {
				if err := b.Set(b.t.Context(), gateway.Route{Cluster: cluster.ID(i), Port: b.port(i), Primary: one, Allow: list}); err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 10 {
		b.expect(1, b.primary(), b.port(i), "one")
		b.blocked(5, b.primary(), b.port(i))
	}
}

// room: one source alone doesn't get all connections, and all together no more than there are.
func room(b *bench) {
	const most = 20
	one := b.server("one")
	r := gateway.Route{
		Cluster: 1, Port: b.port(0), Primary: one, Reads: []netip.AddrPort{one}, Connections: most,
		Allow: []netip.Prefix{gateway.Everybody()},
	}
	b.set(r)
	var in []client
	admitted := func(source, tries int) (n int) {
		for i := range tries {
			end := []netip.Addr{b.primary(), b.reads()}[i%2]
			c, err := b.connect(source, end, r.Port)
			if err != nil {
				continue
			}
			if c.hello(150*time.Millisecond) != "" {
				n++
				in = append(in, c)
			} else {
				c.Close()
			}
		}
		return n
	}
	crowd := admitted(1, most+10)
	if crowd < most-5 || crowd > most-2 {
		b.t.Errorf("one source gets %d of %d connections", crowd, most)
	}
	if got := admitted(2, 2); got != 2 {
		b.t.Errorf("another gets %d of 2", got)
	}
	for source := 3; source < 9; source++ {
		admitted(source, 1)
	}
	if len(in) != most {
		b.t.Errorf("%d connections, want %d", len(in), most)
	}
	r.Connections = most + 10
	b.set(r)
	if got := admitted(9, 3); got != 3 {
		b.t.Errorf("%d of 3 after the route allowed more", got)
	}
}

func anotherProgram(b *bench) {
	port := b.port(60)
	l, err := new(net.ListenConfig).Listen(b.t.Context(), "tcp", netip.AddrPortFrom(b.reads(), uint16(port)).String())
	if err != nil {
		b.t.Fatal(err)
	}
	r := gateway.Route{Cluster: 2, Port: port, Primary: b.server("one"), Allow: b.allow(1)}
	err = b.Set(b.t.Context(), r)
	if taken, ok := errors.AsType[*gateway.PortError](err); !ok || taken.Port != port {
		b.t.Fatalf("got %v", err)
	}
	if b.Usable(port) == nil {
		b.t.Error("another program's port is usable")
	}
	if routes, _ := b.Routes(b.t.Context()); len(routes) != 0 {
		b.t.Errorf("routes %v", routes)
	}
	l.Close()
	b.set(r)
	b.expect(1, b.primary(), port, "one")
	if err := b.Usable(port); err != nil {
		b.t.Error("a port of ours:", err)
	}
}

func headers(b *bench) {
	r := gateway.Route{Cluster: 1, Port: b.port(0), Primary: b.server("one"), Allow: b.allow(1)}
	b.set(r)
	for name, header := range map[string]string{
		"in text":   fmt.Sprintf("PROXY TCP4 %s %s 40000 5432\r\n", b.Source(1), b.primary()),
		"in binary": "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01\x9c\x40\x15\x38",
	} {
		c, err := b.connect(5, b.primary(), r.Port)
		if err != nil {
			continue
		}
		_, _ = c.Write([]byte(header)) // it may have been closed by then
		if got := c.hello(time.Second); got != "" {
			b.t.Errorf("a PROXY header %s lets an unlisted source in: %q", name, got)
		}
	}
	b.expect(1, b.primary(), r.Port, "one")
}
