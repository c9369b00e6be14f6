package kernel

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"steward/internal/cluster"
	"steward/internal/gateway"
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
