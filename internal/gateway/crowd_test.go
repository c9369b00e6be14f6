package gateway

import (
	"fmt"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// admitted opens connections and returns those that the server greets.
func admitted(b *bench, source, gateway string, port, tries int) []client {
	b.t.Helper()
	var in []client
	for range tries {
		c, err := dialFrom(b.t, source, gateway, port)
		if err != nil {
			continue
		}
		if c.hello(150*time.Millisecond) != "" {
			in = append(in, c)
		} else {
			c.Close() // it would wait in front of others
		}
	}
	return in
}

// TestOneSourceLeavesOthersRoom has one source open all the connections it can
// get, to both ends of a port that lead to one server.
func TestOneSourceLeavesOthersRoom(t *testing.T) {
	t.Parallel()
	const most = 30
	b := newBench(t, 8)
	port, one := b.port(0), backend(t, "one")
	r := Route{Cluster: 1, Port: port, Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.0/8"), Connections: most}
	b.set(r)
	crowd := admitted(b, "127.0.0.9", "127.0.0.1", port, 40)
	crowd = append(crowd, admitted(b, "127.0.0.9", "127.0.0.2", port, 10)...)
	if len(crowd) != most-spare+1 {
		t.Errorf("one source gets %d of %d connections, want all but %d", len(crowd), most, spare-1)
	}
	others := admitted(b, "127.0.0.10", "127.0.0.2", port, 1)
	others = append(others, admitted(b, "127.0.0.11", "127.0.0.1", port, 1)...)
	if len(others) != 2 {
		t.Errorf("others get %d connections, want 2", len(others))
	}
	// All sources and both ends together get no more than the server has.
	for i := range 3 {
		others = append(others, admitted(b, "127.0.1."+strconv.Itoa(i+1), "127.0.0.1", port, 3)...)
	}
	if got := len(crowd) + len(others); got != most {
		t.Errorf("%d connections, want %d", got, most)
	}
	// One who waits is let in when another goes.
	waiting := connect(t, "127.0.2.1", "127.0.0.1", port)
	crowd[0].Close()
	if got := waiting.hello(5 * time.Second); got != "one" {
		t.Errorf("who waited got %q", got)
	}
	// More are possible as soon as the route says so.
	r.Connections = most + 20
	b.set(r)
	if got := len(admitted(b, "127.0.0.9", "127.0.0.1", port, 10)); got != 10 {
		t.Errorf("%d of 10 connections after the route allowed more", got)
	}
	// A restart keeps the bound.
	b.reopen()
	if got := len(admitted(b, "127.0.0.9", "127.0.0.1", port, 30)); got > 30-spare {
		t.Errorf("%d more connections after a restart", got)
	}
}

// TestABurstLeavesOthersRoom has HAProxy find a burst of one source's connections
// at once, as it does when the machine was too busy to let it run.
func TestABurstLeavesOthersRoom(t *testing.T) {
	t.Parallel()
	const most = 30
	b := newBench(t, 8)
	port, one := b.port(0), backend(t, "one")
	b.set(Route{Cluster: 1, Port: port, Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.0/8"), Connections: most})
	pid := b.pid()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	for i := range 200 { // half of them for each end
		if _, err := dialFrom(t, "127.0.0.9", fmt.Sprintf("127.0.0.%d", 1+i%2), port); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"127.0.0.1", "127.0.0.2"} {
		c := connect(t, "127.0.0.10", end, port)
		if got := c.hello(10 * time.Second); got != "one" {
			t.Errorf("another source gets %q from %s", got, end)
		}
	}
}

// TestReadsThatTurnToReplicas: the end for reads goes its own way as soon as
// there is one.
func TestReadsThatTurnToReplicas(t *testing.T) {
	t.Parallel()
	b := newBench(t, 8)
	port, one, two := b.port(0), backend(t, "one"), backend(t, "two")
	r := Route{Cluster: 1, Port: port, Primary: one, Reads: []netip.AddrPort{one}, Allow: allow("127.0.0.0/8"), Connections: 20}
	b.set(r)
	b.expect("127.0.0.9", "127.0.0.2", port, "one")
	r.Reads = []netip.AddrPort{two}
	b.set(r)
	b.expect("127.0.0.9", "127.0.0.2", port, "two")
	r.Reads = []netip.AddrPort{one}
	b.set(r)
	b.expect("127.0.0.9", "127.0.0.2", port, "one")
	b.expect("127.0.0.9", "127.0.0.1", port, "one")
}
