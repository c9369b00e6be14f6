package netns

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"steward/internal/process"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

func TestMain(m *testing.M) { testnet.Main(m) }

var opened atomic.Int32

// open makes networks of a range of their own.
func open(t *testing.T) (*Network, Options) {
	t.Helper()
	testnet.Need(t)
	testnet.Sysctl(t, "ipv4/ip_forward", "1")
	dir := t.TempDir()
	o := Options{
		Dir: filepath.Join(dir, "networks"), RunDir: filepath.Join(dir, "run"), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(opened.Add(1)), 0}), 24),
	}
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if again, err := Open(t.Context(), o); err == nil {
			_ = again.Clear(t.Context())
		}
	})
	return n, o
}

func ensure(t *testing.T, n *Network, nodes ...Node) {
	t.Helper()
	for _, node := range nodes {
		if err := n.Ensure(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
}

// listen has something answer in a namespace.
func listen(t *testing.T, path, address string) {
	t.Helper()
	err := Do(path, func() error {
		l, err := net.Listen("tcp4", address)
		if err != nil {
			return err
		}
		testdir.Serve(t, l, func(c net.Conn) { fmt.Fprintln(c, c.RemoteAddr()) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reaches reports whether something answers, and whom it sees.
func reaches(path, address string) (seen string, err error) {
	err = Do(path, func() error {
		c, err := net.DialTimeout("tcp4", address, time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		b, err := io.ReadAll(c)
		seen, _, _ = strings.Cut(string(b), ":")
		return err
	})
	return seen, err
}

func (n *Network) at(number, port int) string {
	return netip.AddrPortFrom(n.Address(number), uint16(port)).String()
}

func TestNodesReachTheirOwnAlone(t *testing.T) {
	t.Parallel()
	n, _ := open(t)
	defer n.Close()
	const port = 21000
	ensure(t, n, Node{Number: 0, Port: port, Peers: []int{0, 1}}, Node{Number: 1, Port: port, Peers: []int{0, 1}}, Node{Number: 5, Port: port + 1}, Node{Number: 6, Port: port + 2, Outside: true})
	for number, p := range map[int]int{0: port, 1: port, 5: port + 1} {
		listen(t, n.Path(number), fmt.Sprintf("0.0.0.0:%d", p))
		listen(t, n.Path(number), "0.0.0.0:99")
	}
	// A neighbour of the machine, with a service, and one of the machine itself.
	k := int(n.network.Addr().As4()[2])
	prefix := func(format string) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf(format, k)) }
	outside := testnet.NewHost(t, fmt.Sprintf("o%d", k), prefix("10.150.%d.1/24"), prefix("10.150.%d.2/24"))
	listen(t, outside.Path(), "0.0.0.0:80")
	listen(t, "", fmt.Sprintf("10.150.%d.1:5432", k))
	listen(t, "", fmt.Sprintf("127.0.0.1:%d", 6000+k))
	neighbour, service := fmt.Sprintf("10.150.%d.2:80", k), fmt.Sprintf("10.150.%d.1:5432", k)

	for address, want := range map[netip.Addr]string{n.Address(5): n.Path(5), n.Gateway(): "", netip.MustParseAddr("127.0.77.1"): ""} {
		if got := n.PathOf(netip.AddrPortFrom(address, port)); got != want {
			t.Errorf("the namespace of %s is %q, want %q", address, got, want)
		}
	}
	if seen, err := reaches(n.Path(0), n.at(1, port)); err != nil || seen != n.Address(0).String() {
		t.Errorf("a peer is seen as %q, %v", seen, err)
	}
	if seen, err := reaches(n.Path(6), neighbour); err != nil || seen != fmt.Sprintf("10.150.%d.1", k) {
		t.Errorf("who may go outside: %q, %v", seen, err)
	}
	if _, err := reaches("", n.at(5, port+1)); err != nil {
		t.Error("root on the machine must reach a node:", err)
	}
	if _, err := reaches("", n.at(3, port)); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Error("packets for a node that isn't there don't stay here:", err)
	}
	for name, way := range map[string][2]string{
		"another port of a peer":        {n.Path(0), n.at(1, 99)},
		"another cluster":               {n.Path(0), n.at(5, port+1)},
		"another cluster, from outside": {n.Path(6), n.at(5, port+1)},
		"the world outside":             {n.Path(0), neighbour},
		"a service of the machine":      {n.Path(0), service},
		"a service, who may go outside": {n.Path(6), service},
		"a service at the gateway":      {n.Path(0), fmt.Sprintf("%s:%d", n.Gateway(), 6000+k)},
		"the machine's loopback":        {n.Path(0), fmt.Sprintf("127.0.0.1:%d", 6000+k)},
		"a node, from outside":          {outside.Path(), n.at(5, port+1)},
	} {
		begun := time.Now()
		if seen, err := reaches(way[0], way[1]); err == nil {
			t.Errorf("%s can be reached, seen as %q", name, seen)
		} else if took := time.Since(begun); took > 900*time.Millisecond { // a packet that is dropped is sent again after a second
			t.Errorf("%s: told after %s: %v", name, took, err)
		}
	}
	ensure(t, n, Node{Number: 6, Port: port + 2})
	if _, err := reaches(n.Path(6), neighbour); err == nil {
		t.Error("who may no longer go outside still does")
	}
}

func TestAdoption(t *testing.T) {
	t.Parallel()
	n, o := open(t)
	const port = 21000
	pair := []Node{{Number: 0, Port: port, Peers: []int{1}}, {Number: 1, Port: port, Peers: []int{0}}}
	ensure(t, n, pair...)
	listen(t, n.Path(1), fmt.Sprintf("0.0.0.0:%d", port))
	index := linkIndex(t, n, 0)
	n.Close() // killed
	if _, err := reaches(n.Path(0), n.at(1, port)); err != nil {
		t.Error("nodes' networks ended with steward:", err)
	}
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	ensure(t, n, pair...)
	if linkIndex(t, n, 0) != index {
		t.Error("links were made anew that were whole")
	}
	if _, err := reaches(n.Path(0), n.at(1, port)); err != nil {
		t.Error(err)
	}
	// Half of it gone:
	link, err := netlink.LinkByName(n.linkName(0))
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	ensure(t, n, pair...)
	if _, err := reaches(n.Path(0), n.at(1, port)); err != nil {
		t.Error("after a link was lost:", err)
	}
	// The rules gone:
	if err := n.table.Delete(); err != nil {
		t.Fatal(err)
	}
	if err := n.Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := reaches(n.Path(1), n.at(0, 99)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("rules don't come back:", err)
	}
	// What leads to the namespace gone, while its server runs:
	server := exec.CommandContext(t.Context(), "/bin/sleep", "100")
	if err := Do(n.Path(0), server.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	if err := removeNamespace(n.Path(0)); err != nil {
		t.Fatal(err)
	}
	if err := n.Keep(0, server.Process.Pid); err != nil {
		t.Fatal(err)
	}
	ensure(t, n, pair...)
	if _, err := reaches(n.Path(0), n.at(1, port)); err != nil {
		t.Error("after what leads to the namespace was lost:", err)
	}
	ensure(t, n, Node{Number: 7, Port: port})
	if got, err := n.Numbers(); err != nil || fmt.Sprint(got) != "[0 1 7]" {
		t.Errorf("there are %v, %v", got, err)
	}
	for range 2 {
		if err := n.Remove(t.Context(), 7); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := n.Numbers(); err != nil || fmt.Sprint(got) != "[0 1]" {
		t.Errorf("there are %v, %v", got, err)
	}
	if _, err := os.Stat(n.Path(7)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the namespace's file is left:", err)
	}
}

func linkIndex(t *testing.T, n *Network, number int) int {
	t.Helper()
	link, err := netlink.LinkByName(n.linkName(number))
	if err != nil {
		t.Fatal(err)
	}
	return link.Attrs().Index
}

// TestForwarding isn't parallel: the setting is the whole machine's.
func TestForwarding(t *testing.T) {
	testnet.Need(t)
	n, o := open(t)
	if err := n.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	testnet.Sysctl(t, "ipv4/ip_forward", "0")
	n, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ensure(t, n, Node{Number: 0, Port: 21000, Outside: true})
	a := testnet.NewHost(t, "fa", netip.MustParsePrefix("10.160.1.1/24"), netip.MustParsePrefix("10.160.1.2/24"))
	b := testnet.NewHost(t, "fb", netip.MustParsePrefix("10.160.2.1/24"), netip.MustParsePrefix("10.160.2.2/24"))
	listen(t, b.Path(), "0.0.0.0:80")
	if _, err := reaches(n.Path(0), "10.160.2.2:80"); err != nil {
		t.Error("a node's packets aren't forwarded:", err)
	}
	if _, err := reaches(a.Path(), "10.160.2.2:80"); err == nil {
		t.Error("others' packets are forwarded, which weren't before")
	}
	n.Close()
	if n, err = Open(t.Context(), o); err != nil { // who forwards is on record
		t.Fatal(err)
	}
	if err := n.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(forwardSetting); err != nil || strings.TrimSpace(string(now)) != "0" {
		t.Errorf("forwarding is %q, %v", now, err)
	}
	tables, err := (&nftables.Conn{}).ListTables()
	if err != nil || slices.ContainsFunc(tables, func(table *nftables.Table) bool { return table.Name == n.table.Name() }) {
		t.Errorf("the table is left: %v", err)
	}
	links, err := listed(netlink.LinkList)
	if err != nil || slices.ContainsFunc(links, func(l netlink.Link) bool { return strings.HasPrefix(l.Attrs().Name, n.prefix) }) {
		t.Errorf("links are left: %v", err)
	}
	if taken, err := Taken(""); err != nil || slices.Contains(taken, n.network) {
		t.Errorf("the route is left: %v", err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	p := netip.MustParsePrefix
	candidates := []netip.Prefix{p("10.213.0.0/16"), p("10.214.0.0/16")}
	for taken, want := range map[string]string{"10.0.0.0/24": "10.213.0.0/16", "10.213.7.0/24": "10.214.0.0/16", "10.0.0.0/8": "invalid Prefix"} {
		got, err := Choose(candidates, []netip.Prefix{p(taken)})
		if got.String() != want || (err == nil) != got.IsValid() {
			t.Errorf("beside %s: got %s, %v", taken, got, err)
		}
	}
}

func TestTaken(t *testing.T) {
	testnet.Need(t)
	testnet.NewHost(t, "taken", netip.MustParsePrefix("10.213.7.1/24"), netip.MustParsePrefix("10.213.7.2/24"))
	taken, err := Taken("")
	if err != nil || !slices.Contains(taken, netip.MustParsePrefix("10.213.7.0/24")) {
		t.Fatalf("taken are %v, %v", taken, err)
	}
	if got, err := Choose(Candidates(), taken); err != nil || got != netip.MustParsePrefix("10.214.0.0/16") {
		t.Errorf("chose %s, %v", got, err)
	}
}

// TestServersAreStartedInside: package process needs nothing but to be called in Do,
// also with a sandbox.
func TestServersAreStartedInside(t *testing.T) {
	t.Parallel()
	n, _ := open(t)
	defer n.Close()
	ensure(t, n, Node{Number: 0, Port: 21000})
	inside := namespaceAt(t, n.Path(0))
	if inside == namespaceAt(t, "") {
		t.Fatalf("the namespace %s is the program's own", inside)
	}
	sandbox, _ := process.FindSandbox(t.Context(), 0, t.TempDir())
	for name, argv := range map[string][]string{
		"bare":      {"/bin/sleep", "60"},
		"sandboxed": sandbox.Wrap([]string{"/bin/sleep", "60"}, process.View{}, "/"),
	} {
		dir := t.TempDir()
		id := process.Identity{Mark: "netns-test:" + dir}
		var p *process.Process
		err := Do(n.Path(0), func() (err error) {
			p, err = process.Start(process.Spec{
				Identity: id, Argv: argv, Env: []string{"PATH=/usr/bin:/bin"}, WorkDir: "/", Sandboxed: len(argv) > 2,
				Output: filepath.Join(dir, "log"), PidFile: filepath.Join(dir, "pid"),
			})
			return err
		})
		if err != nil {
			t.Fatal(name, err)
		}
		var got string
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.Pid()))
			if got, _ = os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.Pid())); strings.TrimSpace(string(comm)) == "sleep" {
				break
			}
		}
		if got != inside {
			t.Errorf("%s: the server is in %s, want %s", name, got, inside)
		}
		if err := process.KillAll(t.Context(), id, nil); err != nil {
			t.Error(err)
		}
		p.Leave()
	}
}

// namespaceAt is what the kernel calls the namespace at a path.
func namespaceAt(t *testing.T, path string) (name string) {
	t.Helper()
	err := Do(path, func() (err error) { name, err = os.Readlink("/proc/thread-self/ns/net"); return err })
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestTheFirstThreadStays makes namespaces from many goroutines, of which some begin on the
// process's first thread: what is asked of /proc/self must go on to be of its own network.
// It isn't parallel: others visit namespaces with that thread.
func TestTheFirstThreadStays(t *testing.T) {
	testnet.Need(t)
	want := namespaceAt(t, "")
	for round := range 200 {
		path := filepath.Join(t.TempDir(), "namespace")
		if err := makeNamespace(path); err != nil {
			t.Fatal(err)
		}
		if err := removeNamespace(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(fmt.Sprintf("/proc/self/task/%d/ns/net", os.Getpid())); err != nil || got != want {
			t.Fatalf("after %d namespaces the first thread is in %s, want %s: %v", round+1, got, want, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for bits, most := range map[int]int{26: 14, 16: 16382} {
		n := &Network{network: netip.PrefixFrom(netip.MustParseAddr("10.9.0.0"), bits)}
		if got := n.Clusters(); got != most {
			t.Errorf("a /%d has addresses for %d clusters, want %d", bits, got, most)
		}
		seen := map[netip.Addr]bool{n.Gateway(): true}
		for port := 21000; port < 21000+most; port++ {
			for ordinal := range perCluster {
				number := n.Number(port, ordinal)
				a := n.Address(number)
				if seen[a] || !n.network.Contains(a.Next()) || !n.SameCluster(number, port) || n.SameCluster(number, port+1) {
					t.Fatalf("node %d at port %d: %d, %s", ordinal, port, number, a)
				}
				seen[a] = true
			}
		}
	}
}

func TestAvailable(t *testing.T) {
	testnet.Need(t)
	if err := Available(); err != nil {
		t.Error(err)
	}
	links, err := listed(netlink.LinkList)
	if err != nil || slices.ContainsFunc(links, func(l netlink.Link) bool { return strings.HasPrefix(l.Attrs().Name, "swtry") }) {
		t.Errorf("links are left: %v", err)
	}
	// Who is root but may do nothing to networks is told why.
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestNotAvailable$", "-test.v")
	cmd.Env = append(os.Environ(), "STEWARD_TEST_POWERLESS=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "can't be made") {
		t.Errorf("without the privilege: %v, %s", err, out)
	}
}

// TestNotAvailable is run by TestAvailable, in a process that gives its privilege away.
func TestNotAvailable(t *testing.T) {
	if os.Getenv("STEWARD_TEST_POWERLESS") == "" {
		t.Skip("TestAvailable runs it")
	}
	var head unix.CapUserHeader
	var data [2]unix.CapUserData
	head.Version = unix.LINUX_CAPABILITY_VERSION_3
	made := make(chan error)
	go func() {
		runtime.LockOSThread() // threads have privileges of their own; this one ends with it
		err := unix.Capset(&head, &data[0])
		if err == nil {
			err = Available()
		}
		made <- err
	}()
	if err := <-made; err == nil {
		t.Error("without privileges networks can be made")
	} else {
		t.Log(err)
	}
}
