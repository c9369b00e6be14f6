package kernel

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/gateway"
)

// TestUsed: whoever is connected is seen, once they are gone for one more look; who isn't let in never is.
func TestUsed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	for port := range 3 {
		p.set(gateway.Route{Cluster: 1, Port: 21000 + port, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7)})
	}
	look := func(when string, want bool) {
		t.Helper()
		used, err := p.Used(t.Context())
		if err != nil || used[21000] != want || used[21001] {
			t.Errorf("%s: %v, %v", when, used, err)
		}
	}
	look("nobody", false)
	p.blocked(8, p.o.PrimaryAddr, 21000)
	look("a stranger", false)
	c := p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	for range 3 {
		look("a session", true)
	}
	c.Close()
	awaitClosed(t, p)
	look("it is over", true)
	look("it has been over", false)
	p.expect(7, p.o.SecondaryAddr, 21000, "one sees "+p.from(7)).Close()
	awaitClosed(t, p)
	look("one between two looks", true)
	look("nobody any more", false)
}

// awaitClosed waits until the kernel has seen the end of all sessions.
func awaitClosed(t *testing.T, p *place) {
	t.Helper()
	await.True(t, "the end of a session that was closed", func() bool {
		busy, err := p.busy(21000)
		if err != nil {
			t.Fatal(err)
		}
		return !busy
	})
}

// TestRest: nobody's session ends for it, and nobody who comes afterwards is refused.
func TestRest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7)}
	rests := func(want bool) {
		t.Helper()
		if got, err := p.Rest(t.Context(), 21000); err != nil || got != want {
			t.Fatalf("rests: %v, %v", got, err)
		}
	}
	rests(false) // there is no route
	p.set(r)
	sees := "one sees " + p.from(7)
	c := p.expect(7, p.o.PrimaryAddr, 21000, sees)
	rests(false)
	if !c.alive() {
		t.Error("a session has ended")
	}
	p.expect(7, p.o.SecondaryAddr, 21000, sees).Close()
	c.Close()
	awaitClosed(t, p)
	rests(true)
	rests(true)
	held, err := p.dial(7, p.o.PrimaryAddr, 21000)
	if err != nil {
		t.Fatal(err)
	}
	awaitHeld(t, p, 1)
	rests(false)
	p.set(r)
	if got := held.hello(patience); got == "" {
		t.Error("who was held isn't joined")
	}
	rests(false) // joined by this process
	if !held.alive() {
		t.Error("a joined session has ended")
	}
}

func awaitHeld(t *testing.T, p *place, n int) {
	t.Helper()
	await.True(t, fmt.Sprintf("%d to be held", n), func() bool { return p.Held(21000) == n })
}

// TestOwnConnections: they count as nobody's, and wake nobody, also once they are over.
func TestOwnConnections(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var woken atomic.Int32
	p.Close()
	p.o.Waiting = func(int, int) { woken.Add(1) }
	p.open()
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7)}
	p.set(r)
	to := netip.AddrPortFrom(p.o.PrimaryAddr, 21000)
	if !p.Serves(to) || p.Serves(netip.AddrPortFrom(p.o.PrimaryAddr, 5001)) || p.Serves(one) {
		t.Error("it doesn't know its ends")
	}
	connect := func(port int) (c net.Conn, over func()) {
		t.Helper()
		from := netip.AddrPortFrom(netip.MustParseAddr(p.from(7)), uint16(port))
		over = p.Own(from, to)
		var err error
		p.clients.Do(func() error {
			d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Timeout: 2 * time.Second}
			c, err = d.Dial("tcp", to.String())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, over
	}
	c, over := connect(30001)
	unused := func(when string) {
		t.Helper()
		if used, err := p.Used(t.Context()); err != nil || used[21000] {
			t.Errorf("%s: %v, %v", when, used, err)
		}
	}
	unused("open")
	c.Close()
	over()
	unused("over")
	if rests, err := p.Rest(t.Context(), 21000); err != nil || !rests {
		t.Fatal(rests, err)
	}
	_, over = connect(30002)
	awaitHeld(t, p, 1)
	unused("held")
	over()
	if got := woken.Load(); got != 0 {
		t.Errorf("woken %d times", got)
	}
	if _, err := p.dial(7, p.o.PrimaryAddr, 21000); err != nil {
		t.Fatal(err)
	}
	awaitHeld(t, p, 2)
	if got := woken.Load(); got != 1 {
		t.Errorf("woken %d times", got)
	}
}
