package kernel

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/gateway"
	"steward/internal/testdir"
)

// fill sets routes for so many databases, each with a list of its own.
func (p *place) fill(n int, server netip.AddrPort) {
	p.t.Helper()
	for i := range n {
		p.set(gateway.Route{
			Cluster: cluster.ID(i + 1), Port: 21000 + i, Primary: server, Reads: []netip.AddrPort{server}, Connections: 100,
			Allow: append(p.allow(7, 8), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)),
		})
	}
}

// change measures how long a change of primary takes.
func (p *place) change(port, rounds int, servers [2]netip.AddrPort) (half, most time.Duration) {
	p.t.Helper()
	var took []time.Duration
	for i := range rounds {
		r := gateway.Route{
			Cluster: cluster.ID(port - 21000 + 1), Port: port, Primary: servers[i%2], Reads: []netip.AddrPort{servers[i%2]},
			Connections: 100, Allow: p.allow(7, 8+i%2),
		}
		begun := time.Now()
		p.set(r)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)-1]
}

// BenchmarkChange is a change of primary and allow list beside 1,000 databases, as a
// part of what it takes beside none.
func BenchmarkChange(b *testing.B) {
	const rounds = 100
	for b.Loop() {
		measure(b, rounds)
	}
}

func measure(b *testing.B, rounds int) {
	b.StopTimer()
	defer b.StartTimer()
	p := newPlace(b)
	servers := [2]netip.AddrPort{netip.MustParseAddrPort(fmt.Sprintf("10.100.%d.2:5001", p.n)), netip.MustParseAddrPort(fmt.Sprintf("10.100.%d.2:5002", p.n))}
	p.fill(1, servers[0])
	alone, _ := p.change(21000, rounds, servers)
	begun := time.Now()
	p.fill(1000, servers[0])
	filled := time.Since(begun)
	beside, most := p.change(21500, rounds, servers)
	p.mu.Lock()
	begun = time.Now()
	said, err := p.repair()
	looked := time.Since(begun)
	p.mu.Unlock()
	if err != nil || said != "" {
		b.Errorf("the table isn't as it should be: %s, %v", said, err)
	}
	p.Close()
	begun = time.Now()
	p.open()
	b.ReportMetric(float64(alone.Microseconds()), "µs-alone")
	b.ReportMetric(float64(beside.Microseconds()), "µs-beside-1000")
	b.ReportMetric(float64(most.Microseconds()), "µs-most")
	b.ReportMetric(float64(beside)/float64(alone), "beside/alone")
	b.ReportMetric(float64(filled.Microseconds())/1000, "µs-created")
	b.ReportMetric(float64(looked.Milliseconds()), "ms-look")
	b.ReportMetric(float64(time.Since(begun).Milliseconds()), "ms-adopt")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPackets is a round trip of one byte, and a connect, beside 1,000 databases as a part of what
// they take beside none: each the best of rounds in turns.
func BenchmarkPackets(b *testing.B) {
	const (
		rounds = 4
		many   = 1000
	)
	p := newPlace(b)
	server := netip.MustParseAddrPort(fmt.Sprintf("10.100.%d.2:5003", p.n))
	p.echo(b, server)
	for b.Loop() {
		var alone, beside traffic
		for range rounds {
			p.fill(1, server)
			alone.add(p.traffic(b))
			p.fill(many, server)
			beside.add(p.traffic(b))
			for i := 1; i < many; i++ {
				if err := p.Remove(b.Context(), 21000+i); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(alone.trip.Nanoseconds())/1000, "µs-trip-alone")
		b.ReportMetric(float64(beside.trip)/float64(alone.trip), "trip-beside/alone")
		b.ReportMetric(float64(alone.connect.Microseconds()), "µs-connect-alone")
		b.ReportMetric(float64(beside.connect)/float64(alone.connect), "connect-beside/alone")
		b.ReportMetric(0, "ns/op")
	}
}

// traffic is how long a round trip and a connect take.
type traffic struct{ trip, connect time.Duration }

func (t *traffic) add(u traffic) {
	if t.trip == 0 {
		*t = u
	}
	t.trip, t.connect = min(t.trip, u.trip), min(t.connect, u.connect)
}

// echo sends back what it is sent.
func (p *place) echo(b *testing.B, at netip.AddrPort) {
	p.servers.Do(func() error {
		l, err := net.Listen("tcp4", at.String())
		if err != nil {
			b.Fatal(err)
		}
		testdir.Serve(b, l, func(c net.Conn) { _, _ = io.Copy(c, c) })
		return nil
	})
}

// traffic measures the way to the first database.
func (p *place) traffic(b *testing.B) traffic {
	const trips, connects = 20_000, 500
	var t traffic
	c, err := p.dial(7, p.o.PrimaryAddr, 21000)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	one := make([]byte, 1)
	begun := time.Now()
	for range trips {
		if _, err := c.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, one); err != nil {
			b.Fatal(err)
		}
	}
	t.trip = time.Since(begun) / trips
	begun = time.Now()
	for range connects {
		c, err := p.dial(7, p.o.PrimaryAddr, 21000)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
	t.connect = time.Since(begun) / connects
	return t
}
