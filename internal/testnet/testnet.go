// Package testnet gives tests a network of their own: the whole test program runs
// in a namespace that it shares with nobody, and makes further ones for servers and clients.
package testnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// inside marks the program that runs in the namespace. Without has tests do without one, as where
// there is no privilege for it: databases then have HAProxy for their gateway.
const (
	inside  = "STEWARD_TEST_NETWORK"
	without = "STEWARD_TEST_GATEWAY"
	haproxy = "haproxy"
)

// why says why there is no network for tests; empty inside of one.
var why = "it needs a network namespace of its own: call testnet.Main"

// Main runs the tests of a package in a network of their own, as TestMain does. Without
// the privilege for that, those that call [Need] are skipped.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for packages that have something to do before the end.
func Run(m *testing.M) (code int) { return Within(m.Run) }

// Within runs a whole program in a network of its own, where it may, and returns its exit code.
func Within(run func() int) (code int) {
	if os.Getenv(inside) != "" {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "network for tests:", err)
			return 1
		}
		why = ""
		return run()
	}
	if os.Getenv(without) == haproxy {
		why = without + " is " + haproxy
		return run()
	}
	if os.Geteuid() != 0 {
		why = "it needs root, for network namespaces"
		return run()
	}
	runtime.LockOSThread() // the program is ended with this thread
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
	}
	// Ctrl-C reaches both: this one waits for what the other does about it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	err := cmd.Run()
	signal.Stop(signals)
	var ended *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &ended):
		return max(1, ended.ExitCode())
	default:
		why = fmt.Sprintf("network namespaces can't be made here: %v", err)
		return run()
	}
}

// prepare makes the namespace a machine that forwards, with mounts nobody else sees.
func prepare() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(netlink.LinkSetUp(lo), syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0))
}

// Inside reports whether the program runs in a network of its own: what it does to tables, links and
// settings is nobody else's business.
func Inside() bool { return os.Getenv(inside) != "" }

// Need skips a test when there is no network for it.
func Need(t testing.TB) {
	t.Helper()
	if why != "" {
		t.Skip(why)
	}
}

// Sysctl sets a setting of the network that the calling thread is in.
func Sysctl(t testing.TB, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// Host is a network namespace that a veth pair joins to the tests' own: some
// machine, or a server's namespace.
type Host struct {
	t  testing.TB
	ns netns.NsHandle
	// Outside is the pair's end in the tests' own namespace.
	Outside string
}

// NewHost makes a namespace with an address, reached from the tests' own by
// the gateway's, which is in the same network. It has a route to everywhere by that.
func NewHost(t testing.TB, name string, gateway, address netip.Prefix) *Host {
	t.Helper()
	Need(t)
	h := &Host{t: t, Outside: name}
	var err error
	h.in(func() error { h.ns, err = netns.New(); return err }, false)
	t.Cleanup(func() {
		h.ns.Close()
		if link, err := netlink.LinkByName(name); err == nil {
			_ = netlink.LinkDel(link)
		}
	})
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsFd(h.ns)}))
	up(t, name, gateway)
	h.Do(func() error {
		up(t, "lo")
		up(t, "eth0", address)
		return netlink.RouteAdd(&netlink.Route{Gw: gateway.Addr().AsSlice()})
	})
	_, err = netlink.LinkByName(name) // makes the kernel notice that the other end is up
	must(t, err)
	return h
}

// AnyOf lets the host use all addresses of a network as its own.
func (h *Host) AnyOf(network netip.Prefix, via netip.Addr) {
	h.t.Helper()
	to := &net.IPNet{IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen())}
	h.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Dst: to, LinkIndex: lo.Attrs().Index, Type: syscall.RTN_LOCAL, Table: 255, Scope: netlink.SCOPE_HOST})
	})
	must(h.t, netlink.RouteAdd(&netlink.Route{Dst: to, Gw: via.AsSlice()}))
}

func up(t testing.TB, name string, addresses ...netip.Prefix) {
	t.Helper()
	link, err := netlink.LinkByName(name)
	must(t, err)
	for _, a := range addresses {
		must(t, netlink.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{
			IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen()),
		}}))
	}
	must(t, netlink.LinkSetUp(link))
}

// Address adds an address to a link of the tests' own namespace.
func Address(t testing.TB, link string, address netip.Prefix) {
	t.Helper()
	up(t, link, address)
}

// Path is where the namespace is found.
func (h *Host) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), int(h.ns)) }

// Do runs f in the namespace. Sockets that it makes stay there.
func (h *Host) Do(f func() error) {
	h.t.Helper()
	h.in(f, true)
}

func (h *Host) in(f func() error, enter bool) {
	h.t.Helper()
	runtime.LockOSThread()
	home, err := netns.Get()
	must(h.t, err)
	defer home.Close()
	if enter {
		must(h.t, netns.Set(h.ns))
	}
	failed := f()
	must(h.t, netns.Set(home))
	runtime.UnlockOSThread()
	must(h.t, failed)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
