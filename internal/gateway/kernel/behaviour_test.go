package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/nftables"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/gateway"
	"steward/internal/nft"
	"steward/internal/testnet"
)

func TestASwitchHoldsNewConnections(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var waiting []int
	var mu sync.Mutex
	p.Close()
	p.o.Waiting = func(port, held int) {
		mu.Lock()
		defer mu.Unlock()
		waiting = append(waiting, port, held)
	}
	p.open()
	one, two, three := p.server("one", 5001), p.server("two", 5002), p.server("three", 5003)
	sees := " sees " + p.from(7)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{two, three}, Allow: p.allow(7)}
	p.set(r)
	write := p.expect(7, p.o.PrimaryAddr, 21000, "one"+sees)
	readers := map[string]client{}
	for len(readers) < 2 {
		c, err := p.dial(7, p.o.SecondaryAddr, 21000)
		if err != nil {
			t.Fatal(err)
		}
		readers[c.hello(patience)] = c
	}
	r.Primary = netip.AddrPort{}
	p.set(r)
	if !write.ended() {
		t.Error("a session of the lost primary lives on")
	}
	held, err := p.dial(7, p.o.PrimaryAddr, 21000)
	if err != nil {
		t.Fatal(err)
	}
	if got := held.hello(100 * time.Millisecond); got != "" || p.Held(21000) != 1 {
		t.Fatalf("got %q without a primary, %d held", got, p.Held(21000))
	}
	p.blocked(8, p.o.PrimaryAddr, 21000) // wakes nobody
	mu.Lock()
	if fmt.Sprint(waiting) != "[21000 1]" {
		t.Errorf("told of %v", waiting)
	}
	mu.Unlock()
	r.Primary, r.Reads = two, []netip.AddrPort{three}
	p.set(r)
	if got := held.hello(patience); !strings.HasPrefix(got, "two") {
		t.Errorf("who was held got %q", got)
	}
	if !held.alive() || p.Held(21000) != 0 {
		t.Error("who was held isn't joined")
	}
	if first, second := readers["two"+sees], readers["three"+sees]; !first.ended() || !second.alive() {
		t.Error("only the session of the replica that was promoted must end")
	}
	p.expect(7, p.o.PrimaryAddr, 21000, "two"+sees)
	p.expect(7, p.o.SecondaryAddr, 21000, "three"+sees)
	r.Primary = one
	p.set(r)
	if !held.ended() {
		t.Error("a joined session of a server that isn't the route's any more lives on")
	}
}

func TestReadsAreSpread(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	var servers []netip.AddrPort
	for i := range 3 {
		servers = append(servers, p.server(fmt.Sprint(i), 5001+i))
	}
	p.set(gateway.Route{Cluster: 1, Port: 21000, Primary: servers[0], Reads: servers, Allow: p.allow(7)})
	counts := map[string]int{}
	for range 60 {
		c, err := p.dial(7, p.o.SecondaryAddr, 21000)
		if err != nil {
			t.Fatal(err)
		}
		counts[c.hello(patience)]++
		c.Close()
	}
	for name, n := range counts {
		if n < 6 || len(counts) != 3 {
			t.Errorf("%q got %d of 60: %v", name, n, counts)
		}
	}
	// The program that loads and shows the machine's own tables reads ours along with them.
	out, err := exec.CommandContext(t.Context(), "nft", "list", "ruleset").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "21000 : "+strings.ReplaceAll(servers[0].String(), ":", " . ")) {
		t.Errorf("nft list ruleset: %v\n%s", err, out)
	}
}

func TestConnectionsAreCapped(t *testing.T) {
	t.Parallel()
	const most = 20
	p := newPlace(t)
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7, 8, 9), Connections: most}
	p.set(r)
	var open []client
	admit := func(source, tries int) (n int) {
		for i := range tries {
			c, err := p.dial(source, []netip.Addr{p.o.PrimaryAddr, p.o.SecondaryAddr}[i%2], 21000)
			if err == nil && c.hello(time.Second) != "" {
				n++
				open = append(open, c)
			}
		}
		return n
	}
	crowd := admit(7, 30)
	if crowd != most-spare {
		t.Errorf("one source gets %d of %d", crowd, most)
	}
	if got := admit(8, spare); got != spare {
		t.Errorf("another gets %d of the last %d", got, spare)
	}
	if got := admit(9, 1); got != 0 {
		t.Error("more get in than there is room for")
	}
	p.Close()
	p.open() // a new steward keeps the bound
	if got := admit(9, 1); got != 0 {
		t.Error("more get in after a restart")
	}
	open[0].Close()
	open[1].Close()
	await.True(t, "the room that was left can be had", func() bool { return admit(9, 1) == 1 }) // the server has to close its side, too
	r.Connections = most + 10
	p.set(r)
	if got := admit(7, 5); got != 5 {
		t.Errorf("%d of 5 after the route allowed more", got)
	}
}

func TestNewConnectionsAreSlowedDown(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Close()
	p.o.Rate = 5
	p.open()
	p.set(gateway.Route{Cluster: 1, Port: 21000, Primary: p.server("one", 5001), Allow: p.allow(7, 8)})
	in := 0
	for range 40 {
		if c, err := p.dial(7, p.o.PrimaryAddr, 21000); err == nil {
			in++
			c.Close()
		}
	}
	if in < 5 || in > 20 {
		t.Errorf("%d of 40 connections at 5 a second", in)
	}
	p.expect(8, p.o.PrimaryAddr, 21000, "one sees "+p.from(8))
}

// TestWhatOthersDoToTheTable has somebody flush, change and delete it.
func TestWhatOthersDoToTheTable(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	p.set(gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7), Connections: 10})
	kept := p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	other := &nftables.Conn{}
	theirs := other.AddTable(&nftables.Table{Name: fmt.Sprintf("theirs%d", p.n), Family: nftables.TableFamilyINet})
	other.AddChain(&nftables.Chain{Name: "c", Table: theirs})
	ours := &nftables.Table{Name: p.table.Name(), Family: nftables.TableFamilyINet}
	for name, do := range map[string]func(){
		"flush":    func() { other.FlushTable(ours) },
		"a chain":  func() { other.FlushChain(&nftables.Chain{Name: "in-21000", Table: ours}) },
		"a rule":   func() { other.AddRule(&nftables.Rule{Table: ours, Chain: &nftables.Chain{Name: "in-21000"}}) },
		"a map":    func() { other.FlushSet(&nftables.Set{Name: mapPrimary, Table: ours}) },
		"a list":   func() { other.FlushSet(&nftables.Set{Name: "allow4-21000", Table: ours}) },
		"strange":  func() { other.AddChain(&nftables.Chain{Name: "strange", Table: ours}) },
		"all gone": func() { other.DelTable(ours) },
	} {
		do()
		if err := other.Flush(); err != nil {
			t.Fatal(name, err)
		}
		said := strings.Count(p.log.String(), "somebody changed the gateway's table")
		if err := p.Ensure(t.Context()); err != nil {
			t.Fatal(name, err)
		}
		if strings.Count(p.log.String(), "somebody changed the gateway's table") == said && !told(p) {
			t.Errorf("%s: nothing was told", name)
		}
		p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
		p.blocked(8, p.o.PrimaryAddr, 21000)
		if !kept.alive() {
			t.Fatalf("%s: a session ended", name)
		}
	}
	chains, err := other.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil || !slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name == theirs.Name }) {
		t.Errorf("another's table was touched: %v", err)
	}
	// Not asked for:
	other.FlushTable(ours)
	if err := other.Flush(); err != nil {
		t.Fatal(err)
	}
	c, err := p.dial(7, p.o.PrimaryAddr, 21000)
	if err != nil || !strings.HasPrefix(c.hello(patience), "one sees") {
		t.Errorf("while the rules are lost, the holder must let customers in: %v", err)
	}
	p.blocked(8, p.o.PrimaryAddr, 21000)
	await.True(t, "the rules come back by themselves", func() bool {
		c, err := p.dial(7, p.o.PrimaryAddr, 21000)
		return err == nil && c.hello(time.Second) == "one sees "+p.from(7)
	})
}

// TestAnEmptiedTableComesBackAtOnce has somebody empty and delete the table just after a look that took so long that the next one
// would be due in two days.
func TestAnEmptiedTableComesBackAtOnce(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.set(gateway.Route{Cluster: 1, Port: 21000, Primary: p.server("one", 5001), Allow: p.allow(7)})
	other := &nftables.Conn{}
	ours := &nftables.Table{Name: p.table.Name(), Family: nftables.TableFamilyINet}
	for name, do := range map[string]func(){
		"emptied": func() { other.FlushTable(ours) },
		"deleted": func() { other.DelTable(ours) },
	} {
		p.mu.Lock()
		p.looked, p.took = time.Now(), time.Hour
		p.mu.Unlock()
		do()
		if err := other.Flush(); err != nil {
			t.Fatal(name, err)
		}
		await.True(t, "the table that was "+name+" is back", func() bool { return told(p) })
		p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	}
}

// told reports whether the repair happened in a sweep meanwhile.
func told(p *place) bool {
	select {
	case <-p.Changes():
		return true
	default:
		return false
	}
}

func TestANewStewardAdopts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Reads: []netip.AddrPort{one}, Allow: p.allow(7, 8), Connections: 10}
	p.set(r)
	kept, gone := p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7)), p.expect(8, p.o.PrimaryAddr, 21000, "one sees "+p.from(8))
	p.Close()
	if !kept.alive() {
		t.Fatal("a session ended with steward")
	}
	p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	// One that was killed after saving a route, before the kernel heard of it:
	r.Allow = p.allow(7)
	if err := p.files.Save(r); err != nil {
		t.Fatal(err)
	}
	p.open()
	if !gone.ended() || !kept.alive() {
		t.Error("what the saved route says isn't in force after a restart")
	}
	p.blocked(8, p.o.PrimaryAddr, 21000)
	// A reboot:
	p.Close()
	if err := p.deleteTable(); err != nil {
		t.Fatal(err)
	}
	p.open()
	p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	p.blocked(8, p.o.PrimaryAddr, 21000)
	// A torn file:
	p.Close()
	if err := os.WriteFile(filepath.Join(p.files.Dir, "21000.json"), []byte(`{"Cluster":1,"Po`), 0o600); err != nil {
		t.Fatal(err)
	}
	p.open()
	p.blocked(7, p.o.PrimaryAddr, 21000)
	if routes, err := p.Routes(t.Context()); err != nil || len(routes) != 0 {
		t.Errorf("routes %v, %v", routes, err)
	}
	p.set(r)
	kept = p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	if err := p.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !kept.ended() {
		t.Error("a session outlived Stop")
	}
	if there, err := p.table.Exists(); err == nil && there {
		t.Error("the table outlived Stop")
	}
	p.open()
	p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
}

func (p *place) deleteTable() error {
	table, err := nft.Open(tableName(p.o.Dir))
	if err != nil {
		return err
	}
	defer table.Close()
	return table.Delete()
}

func TestLongLists(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: p.server("one", 5001), Allow: p.allow(7)}
	for i := range 3000 {
		r.Allow = append(r.Allow, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16 | byte(i>>12), byte(i >> 4), byte(i << 4)}), 30))
	}
	begun := time.Now()
	p.set(r)
	t.Logf("%d entries after %s", len(r.Allow), time.Since(begun))
	p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	begun = time.Now()
	r.Allow = append(slices.Clone(r.Allow), p.allow(9)...)
	p.set(r)
	t.Logf("one more after %s", time.Since(begun))
	p.expect(9, p.o.PrimaryAddr, 21000, "one sees "+p.from(9))
	r.Allow = p.allow(9)
	p.set(r)
	p.blocked(7, p.o.PrimaryAddr, 21000)
	p.expect(9, p.o.PrimaryAddr, 21000, "one sees "+p.from(9))
	have, err := p.table.Read()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for k := range have.Elements {
		if k.Set == "allow4-21000" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d ends of ranges are left, want 2", n)
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: p.server("one", 5001)}
	for list, in := range map[string]bool{
		"0.0.0.0/0": true, "::/0": false, p.from(7) + "/31": true, p.from(8) + "/31": false, p.from(0) + "/24": true, "128.0.0.0/1": false,
		"255.255.255.255/32": false, "::ffff:" + p.from(0) + "/120": true,
	} {
		r.Allow = []netip.Prefix{netip.MustParsePrefix(list)}
		p.set(r)
		if in {
			p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
		} else {
			p.blocked(7, p.o.PrimaryAddr, 21000)
		}
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ list, want string }{
		{"", ""},
		{"10.0.0.0/24 10.0.1.0/24 10.0.0.7/32", "10.0.0.0-10.0.2.0"},
		{"10.0.0.5/32 10.0.0.7/32", "10.0.0.5-10.0.0.6 10.0.0.7-10.0.0.8"},
		{"0.0.0.0/0 10.0.0.0/8", "0.0.0.0-invalid IP"},
		{"255.255.255.255/32 1.0.0.0/8", "1.0.0.0-2.0.0.0 255.255.255.255-invalid IP"},
		{"10.0.0.0/8 10.1.0.0/16 11.0.0.0/8", "10.0.0.0-12.0.0.0"},
	} {
		var list []netip.Prefix
		for s := range strings.FieldsSeq(c.list) {
			list = append(list, netip.MustParsePrefix(s))
		}
		var got []string
		for _, s := range spans(list, false) {
			got = append(got, fmt.Sprintf("%s-%s", s.first, s.after))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.list, got, c.want)
		}
	}
	if got := spans([]netip.Prefix{gateway.Everybody()}, true); len(got) != 1 || got[0].first != netip.IPv6Unspecified() {
		t.Errorf("everybody in IPv6: %v", got)
	}
}

// TestServersTheKernelCantLeadTo: those on loopback are joined instead.
func TestServersTheKernelCantLeadTo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.77.%d:0", p.n))
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, "local")
	at := netip.MustParseAddrPort(l.Addr().String())
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: at, Reads: []netip.AddrPort{at}, Allow: p.allow(7, 8)}
	p.set(r)
	kept, gone := p.expect(7, p.o.PrimaryAddr, 21000, "local sees "+gateway.Source), p.expect(8, p.o.SecondaryAddr, 21000, "local sees "+gateway.Source)
	if got, err := p.Sessions(t.Context(), 21000); err != nil || got != (gateway.Count{Primary: 1, Reads: 1}) {
		t.Errorf("counted %+v, %v", got, err)
	}
	r.Allow = p.allow(7)
	p.set(r)
	if !gone.ended() || !kept.alive() {
		t.Error("the session of the removed address, and that one alone, must end")
	}
	p.blocked(8, p.o.PrimaryAddr, 21000)
}

func TestAPortOfAnotherProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, err := net.Listen("tcp", netip.AddrPortFrom(p.o.SecondaryAddr, 21000).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := gateway.Route{Cluster: 1, Port: 21000, Allow: p.allow(7)}
	err = p.Set(t.Context(), r)
	if taken, ok := errors.AsType[*gateway.PortError](err); !ok || taken.Port != 21000 || p.Usable(21000) == nil {
		t.Fatalf("got %v", err)
	}
	if routes, _ := p.Routes(t.Context()); len(routes) != 0 {
		t.Errorf("routes %v", routes)
	}
	l.Close()
	p.set(r)
	if p.Usable(21000) != nil {
		t.Error("a port of ours isn't usable")
	}
}

func TestAPortOfAnotherClusterStartsAfresh(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: p.server("one", 5001), Allow: p.allow(7)}
	p.set(r)
	old := p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
	r.Cluster = 2
	p.set(r)
	if !old.ended() {
		t.Error("a session of the former cluster lives on")
	}
	p.expect(7, p.o.PrimaryAddr, 21000, "one sees "+p.from(7))
}

func TestConcurrentSets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			for _, list := range [][]netip.Prefix{nil, p.allow(8), p.allow(7)} {
				if err := p.Set(t.Context(), gateway.Route{Cluster: cluster.ID(i), Port: 21000 + i, Primary: one, Allow: list}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i := range 10 {
		p.expect(7, p.o.PrimaryAddr, 21000+i, "one sees "+p.from(7))
		p.blocked(8, p.o.PrimaryAddr, 21000+i)
	}
}

// TestWhoIsHeldInVainIsTold in the protocol of the database.
func TestWhoIsHeldInVainIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Close()
	p.o.HoldLimit = 100 * time.Millisecond
	p.open()
	for i, engine := range []cluster.Engine{cluster.PostgreSQL, cluster.MySQL} {
		r := gateway.Route{Cluster: cluster.ID(i + 1), Engine: engine, Port: 21000 + i, Allow: p.allow(7)}
		p.set(r)
		c, err := p.dial(7, p.o.PrimaryAddr, r.Port)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if engine == cluster.PostgreSQL { // asks for TLS first
			_, _ = c.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
		}
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case engine == cluster.PostgreSQL && (got[0] != 'E' || int(binary.BigEndian.Uint32(got[1:])) != len(got)-1 || !strings.Contains(string(got), "C57P03\x00")):
			t.Errorf("got %q", got)
		case engine == cluster.MySQL && (int(got[0]) != len(got)-4 || got[4] != 0xff || binary.LittleEndian.Uint16(got[5:]) != 1053):
			t.Errorf("got %q", got)
		}
		p.Fail(r.Port, "it can't be woken")
		if c, err = p.dial(7, p.o.PrimaryAddr, r.Port); err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if got, _ := io.ReadAll(c); !strings.Contains(string(got), "it can't be woken") {
			t.Errorf("got %q", got)
		}
	}
}

// TestIPv6 has the end for reads on IPv6, with a server on IPv4: the list is the
// kernel's, and the connection joined.
func TestIPv6(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if gateway.Probe([]netip.Addr{netip.IPv6Loopback()}, 0) != nil {
		t.Skip("no IPv6 here")
	}
	p.Close()
	p.o.PrimaryAddr, p.o.SecondaryAddr, p.o.Ports = netip.AddrFrom4([4]byte{127, 0, byte(p.n), 1}), netip.IPv6Loopback(), [2]int{22000, 22009}
	p.open()
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 22000, Primary: one, Reads: []netip.AddrPort{one}, Connections: 10}
	want := fmt.Sprintf("one sees 10.100.%d.1", p.n)
	for _, c := range []struct {
		list   string
		v4, v6 bool
	}{{"127.0.0.1/32", true, false}, {"::1/128", false, true}, {"::/0", false, true}, {"0.0.0.0/0", true, true}, {"::ffff:127.0.0.0/104", true, false}} {
		r.Allow = []netip.Prefix{netip.MustParsePrefix(c.list)}
		p.set(r)
		for end, in := range map[netip.Addr]bool{p.o.PrimaryAddr: c.v4, p.o.SecondaryAddr: c.v6} {
			if in {
				p.expect(0, end, r.Port, want)
			} else {
				p.blocked(0, end, r.Port)
			}
		}
	}
	have, err := p.table.Read()
	if err != nil {
		t.Fatal(err)
	}
	for name := range have.Sets {
		if strings.HasPrefix(name, "allow6") {
			t.Errorf("%s is there without an IPv6 address on the list", name)
		}
	}
}

func TestAvailable(t *testing.T) {
	testnet.Need(t)
	if err := Available(); err != nil {
		t.Error(err)
	}
	if now, most, err := Tracked(); err != nil || now < 0 || most < 1 {
		t.Errorf("tracked %d of %d, %v", now, most, err)
	}
}

// TestAServerThatHasEndedTheSessionListensOn: the kernel takes the listener for a socket that is gone, if it is asked
// by addresses alone.
func TestAServerThatHasEndedTheSessionListensOn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Close()
	var l net.Listener
	p.servers.Do(func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("10.100.%d.2:5001", p.n))
		return err
	})
	defer l.Close()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	var there net.Conn
	p.o.End = func(context.Context, []Session) {
		_ = there.(*net.TCPConn).SetLinger(0)
		there.Close()
	}
	p.open()
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: netip.MustParseAddrPort(l.Addr().String()), Allow: p.allow(7, 8)}
	p.set(r)
	for range 2 {
		gone, err := p.dial(8, p.o.PrimaryAddr, 21000)
		if err != nil {
			t.Fatal(err)
		}
		there = <-accepted
		r.Allow = p.allow(7)
		p.set(r)
		if !gone.ended() {
			t.Error("the session lives on")
		}
		r.Allow = p.allow(7, 8)
		p.set(r)
	}
	if _, err := p.dial(7, p.o.PrimaryAddr, 21000); err != nil {
		t.Error("the server's listener was closed:", err)
	}
	if c := <-accepted; c == nil {
		t.Error("the server's listener was closed")
	}
}

// TestWithhold: before a server stops, sessions that have been at work for long are cut after the grace; who has
// just come has longer for a login, and no longer than it takes.
func TestWithhold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Allow: p.allow(7)}
	const grace = 30 * time.Millisecond
	hello := "one sees " + p.from(7)

	p.set(r)
	worker := p.expect(7, p.o.PrimaryAddr, 21000, hello)
	if _, err := worker.Write(make([]byte, 2*loginBytes)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(worker, make([]byte, 2*loginBytes)); err != nil {
		t.Fatal(err)
	}
	if err := p.Withhold(t.Context(), 21000, one, grace); err != nil {
		t.Fatal(err)
	}
	if !worker.ended() {
		t.Error("a session lives on whose server is to stop")
	}

	p.set(r)
	newcomer := p.expect(7, p.o.PrimaryAddr, 21000, hello)
	if !newcomer.alive() {
		t.Fatal("no session")
	}
	withheld := make(chan error, 1)
	begun := time.Now()
	go func() { withheld <- p.Withhold(t.Context(), 21000, one, grace) }()
	await.True(t, "new connections to be held", func() bool {
		routes, err := p.Routes(t.Context())
		return err == nil && len(routes) == 1 && !routes[0].Primary.IsValid() && routes[0].InForce
	})
	held, err := p.dial(7, p.o.PrimaryAddr, 21000)
	if err != nil {
		t.Fatal(err)
	}
	if got := held.hello(3 * grace); got != "" {
		t.Errorf("who comes meanwhile gets %q", got)
	}
	if alive, after := newcomer.alive(), time.Since(begun); !alive && after < loginGrace {
		t.Errorf("a login was cut within %s", after)
	}
	newcomer.Close()
	closed := time.Now()
	if err := <-withheld; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(closed); took > loginGrace/2 {
		t.Errorf("waits for %s after the last one has gone", took)
	}
	p.set(r)
	if got := held.hello(patience); !strings.HasPrefix(got, "one sees") {
		t.Errorf("who was held gets %q", got)
	}
}

// TestWithholdCutsNobodyWhoComes: whoever connects at the very moment gets through, to the server or to the next route.
func TestWithholdCutsNobodyWhoComes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	one := p.server("one", 5001)
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Allow: p.allow(7)}
	p.set(r)
	ctx, cancel := context.WithCancel(t.Context())
	var coming sync.WaitGroup
	var came atomic.Int32
	for range 4 {
		coming.Go(func() {
			for ctx.Err() == nil {
				c, err := p.dial(7, p.o.PrimaryAddr, 21000)
				if err != nil {
					t.Error("turned away:", err)
					return
				}
				if got := c.hello(patience); !strings.HasPrefix(got, "one sees") {
					t.Errorf("after %d others one was cut: it got %q", came.Load(), got)
					return
				}
				c.Close()
				came.Add(1)
			}
		})
	}
	for began := came.Load(); came.Load() < began+150 && !t.Failed(); {
		if err := p.Withhold(t.Context(), 21000, one, 30*time.Millisecond); err != nil {
			t.Error(err)
		}
		p.set(r)
	}
	cancel()
	coming.Wait()
}

// TestLastWordsAreHeardLate: a client that is busy with something else finds its server's last words when it comes back,
// though its kernel says late that they have arrived, and it writes before it reads.
func TestLastWordsAreHeardLate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Close()
	var l net.Listener
	p.servers.Do(func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("10.100.%d.2:5001", p.n))
		return err
	})
	defer l.Close()
	one := netip.MustParseAddrPort(l.Addr().String())
	var there net.Conn
	bye := func(context.Context, []Session) {
		fmt.Fprint(there, "bye")
		there.Close()
	}
	p.o.End = bye
	p.o.Retire = func(ctx context.Context, s []Session, _ time.Duration) { bye(ctx, s) }
	p.open()
	r := gateway.Route{Cluster: 1, Port: 21000, Primary: one, Allow: p.allow(7, 8)}
	for what, end := range map[string]func() error{
		"may no longer connect": func() error {
			return p.Set(t.Context(), gateway.Route{Cluster: 1, Port: 21000, Primary: one, Allow: p.allow(7)})
		},
		"has a server that stops": func() error { return p.Withhold(t.Context(), 21000, one, 30*time.Millisecond) },
	} {
		p.set(r)
		c, err := p.dial(8, p.o.PrimaryAddr, 21000)
		if err != nil {
			t.Fatal(err)
		}
		if there, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		for range 20 { // who talks back and forth acknowledges late
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 1)
			if _, err := io.ReadFull(there, b); err != nil {
				t.Fatal(err)
			}
			if _, err := there.Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, b); err != nil {
				t.Fatal(err)
			}
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the busy client, and more than the 40 ms of its kernel
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("who %s was reset before it could read: %v", what, err)
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if got, _ := io.ReadAll(c); string(got) != "bye" {
			t.Errorf("who %s hears %q", what, got)
		}
	}
}
