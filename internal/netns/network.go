package netns

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	handles "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"steward/internal/durable"
	"steward/internal/nft"
	"steward/internal/wait"
)

// Options are what a Network is made of.
type Options struct {
	// Dir keeps what is known of nodes; names follow from it. RunDir holds the namespaces' files.
	Dir, RunDir string
	// Network is where nodes' addresses are from; invalid for the first of Candidates that is free. Once
	// chosen, it stays until Clear.
	Network netip.Prefix
	Logger  *slog.Logger
}

// Node is a server that gets a network of its own.
type Node struct {
	// Number tells nodes apart, and stays a node's for good.
	Number int
	// Port is where the nodes of its cluster listen.
	Port int
	// Peers are the numbers of the nodes that it may connect to.
	Peers []int
	// Outside reports whether it may connect to the world outside.
	Outside bool
}

func (n Node) equal(o Node) bool {
	return n.Number == o.Number && n.Port == o.Port && slices.Equal(n.Peers, o.Peers) && n.Outside == o.Outside
}

// Network is all nodes' networks. It is safe for concurrent use.
type Network struct {
	o       Options
	log     *slog.Logger
	prefix  string
	network netip.Prefix
	table   *nft.Table
	closing context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	nodes      map[int]Node
	generation uint32
	// forwards reports whether the machine forwards packets because of us.
	forwards bool

	// counter asks the kernel for counters; nil until it is needed.
	counting sync.Mutex
	counter  *netlink.Handle
}

const sweepEvery = time.Second

// state is what is on the disk beside the nodes.
type state struct {
	Network  netip.Prefix
	Forwards bool
}

// Open takes over what an earlier steward left. Close or Clear must follow.
func Open(ctx context.Context, o Options) (*Network, error) {
	sum := sha256.Sum256([]byte(filepath.Clean(o.Dir)))
	id := hex.EncodeToString(sum[:])
	n := &Network{o: o, log: o.Logger, prefix: "sw" + id[:5] + "-", nodes: map[int]Node{}}
	for _, dir := range []string{n.nodesDir(), o.RunDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return nil, fmt.Errorf("networks: %w", err)
		}
	}
	if err := n.load(); err != nil {
		return nil, fmt.Errorf("networks: %w", err)
	}
	if err := n.forward(); err != nil {
		return nil, fmt.Errorf("networks: %w", err)
	}
	if err := netlink.RouteReplace(n.nowhere()); err != nil {
		return nil, fmt.Errorf("networks: keep what is for absent nodes on the machine: %w", err)
	}
	var err error
	if n.table, err = nft.Open("steward-network-" + id[:8]); err != nil {
		return nil, fmt.Errorf("networks: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, err := n.repair(); err != nil {
		return nil, fmt.Errorf("networks: %w", errors.Join(err, n.table.Close()))
	}
	sweeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.closing = cancel
	n.running.Go(func() { n.sweep(sweeping) })
	return n, nil
}

// nowhere is where packets for nodes go that aren't there: after a reboot they would leave the machine.
func (n *Network) nowhere() *netlink.Route {
	return &netlink.Route{
		Dst:  &net.IPNet{IP: n.network.Addr().AsSlice(), Mask: net.CIDRMask(n.network.Bits(), 32)},
		Type: unix.RTN_UNREACHABLE, Priority: nowherePriority,
	}
}

const nowherePriority = 4000

func (n *Network) nodesDir() string  { return filepath.Join(n.o.Dir, "nodes") }
func (n *Network) stateFile() string { return filepath.Join(n.o.Dir, "network.json") }
func (n *Network) nodeFile(number int) string {
	return filepath.Join(n.nodesDir(), strconv.Itoa(number)+".json")
}

// load reads what is on the disk, and chooses a network the first time.
func (n *Network) load() error {
	var s state
	content, err := os.ReadFile(n.stateFile())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		taken, err := Taken(n.prefix)
		if err != nil {
			return err
		}
		candidates := Candidates()
		if n.o.Network.IsValid() {
			candidates = []netip.Prefix{n.o.Network.Masked()}
		}
		if s.Network, err = Choose(candidates, taken); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		if err := json.Unmarshal(content, &s); err != nil {
			return fmt.Errorf("read %s: %w", n.stateFile(), err)
		}
		if n.o.Network.IsValid() && n.o.Network.Masked() != s.Network {
			return fmt.Errorf("databases have addresses of %s, not of %s, until all are stopped", s.Network, n.o.Network)
		}
	}
	n.network, n.forwards = s.Network, s.Forwards
	if err := n.save(); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(n.nodesDir(), "*.json"))
	if err != nil {
		return err
	}
	for _, path := range files {
		var node Node
		content, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(content, &node)
		}
		if err != nil || n.nodeFile(node.Number) != path {
			n.log.Warn("a node's network is left out until it is asked for again", "file", path, "error", err)
			continue
		}
		n.nodes[node.Number] = node
	}
	return nil
}

func (n *Network) save() error { return writeJSON(n.stateFile(), state{n.network, n.forwards}) }

func writeJSON(path string, value any) error {
	content, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(content, '\n'))
}

const forwardSetting = "/proc/sys/net/ipv4/ip_forward"

// forward has the machine forward packets.
func (n *Network) forward() error {
	now, err := os.ReadFile(forwardSetting)
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(now)) != "0" {
		return nil
	}
	// First on record: what isn't can't be taken back.
	n.forwards = true
	if err := n.save(); err != nil {
		return err
	}
	n.log.Info("the machine forwards IPv4 packets from now on, those of databases alone")
	return os.WriteFile(forwardSetting, []byte("1"), 0)
}

// Gateway is the machine's address in nodes' networks.
func (n *Network) Gateway() netip.Addr { return n.network.Addr().Next() }

// Address is a node's.
func (n *Network) Address(number int) netip.Addr {
	b := binary.BigEndian.AppendUint32(nil, asNumber(n.network.Addr())+uint32(number)+reserved)
	return netip.AddrFrom4([4]byte(b))
}

const (
	// reserved are the first addresses, of which the machine's is one.
	reserved = 4
	// perCluster is how many numbers a cluster has.
	perCluster = 4
)

// Prefix is where all nodes' addresses are from.
func (n *Network) Prefix() netip.Prefix { return n.network }

// Clusters is how many clusters, of ports one after the other, have numbers of their own.
func (n *Network) Clusters() int {
	return min(1<<(32-n.network.Bits())/perCluster-2, (mostNumber+1)/perCluster)
}

// Number is that of one of the nodes of the cluster at a port. It depends on nothing else, so that
// it stays what it is when the range of ports changes.
func (n *Network) Number(port, ordinal int) int {
	return port%n.Clusters()*perCluster + ordinal
}

// SameCluster reports whether a number is one of those of the cluster at a port.
func (n *Network) SameCluster(number, port int) bool {
	return number/perCluster == port%n.Clusters()
}

// Path is where a node's namespace is found.
func (n *Network) Path(number int) string { return filepath.Join(n.o.RunDir, n.linkName(number)) }

// PathOf is where the namespace of a node's address is found, whether or not there is
// such a node; empty for addresses that are none's.
func (n *Network) PathOf(server netip.AddrPort) string {
	a := server.Addr().Unmap()
	if !n.network.Contains(a) || a.Compare(n.Address(0)) < 0 {
		return ""
	}
	return n.Path(int(asNumber(a) - asNumber(n.Address(0))))
}

func asNumber(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// mostNumber is the largest whose link's name isn't too long.
const mostNumber = 999999

func (n *Network) linkName(number int) string { return n.prefix + strconv.Itoa(number) }

// Ensure makes a node's network what it should be.
func (n *Network) Ensure(_ context.Context, node Node) error {
	if node.Number < 0 || node.Number > mostNumber || !n.network.Contains(n.Address(node.Number).Next()) {
		return fmt.Errorf("network of node %d: %s has no address for it", node.Number, n.network)
	}
	node.Peers = slices.Clone(node.Peers)
	n.mu.Lock()
	defer n.mu.Unlock()
	before, had := n.nodes[node.Number]
	if !had || !before.equal(node) {
		if err := writeJSON(n.nodeFile(node.Number), node); err != nil {
			return fmt.Errorf("network of node %d: %w", node.Number, err)
		}
		n.nodes[node.Number] = node
		old := nft.NewRuleset()
		if had {
			old = n.part(before)
		}
		// The isolation first, then who is to be isolated.
		if err := n.change(old, n.part(node)); err != nil {
			return fmt.Errorf("network of node %d: %w", node.Number, err)
		}
	}
	if err := n.wire(node.Number); err != nil {
		return fmt.Errorf("network of node %d: %w", node.Number, err)
	}
	return nil
}

// Keep makes sure that the network of a node whose server runs is found again, when what led there was lost.
func (n *Network) Keep(number, pid int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if isNamespace(n.Path(number)) {
		return nil
	}
	if err := keepNamespace(n.Path(number), pid); err != nil {
		return fmt.Errorf("find the network of node %d again: %w", number, err)
	}
	return nil
}

func (n *Network) change(before, now nft.Ruleset) error {
	earlier, err := n.table.Generation()
	if err != nil {
		return err
	}
	if _, err := n.table.Change(before, now, sharedSets()); err != nil {
		_, err = n.repair()
		return err
	}
	after, err := n.table.Generation()
	if err == nil && earlier == n.generation && after == earlier+1 {
		n.generation = after
	}
	return err
}

// wire makes the namespace and the links, as far as they are missing.
func (n *Network) wire(number int) error {
	path, name := n.Path(number), n.linkName(number)
	if !isNamespace(path) {
		if err := makeNamespace(path); err != nil {
			return fmt.Errorf("make namespace: %w", err)
		}
	}
	whole, err := n.wired(path, name, number)
	if err != nil || whole {
		return err
	}
	// Half a pair is no use.
	if link, err := netlink.LinkByName(name); err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return fmt.Errorf("remove link: %w", err)
		}
	}
	there, err := handles.GetFromPath(path)
	if err != nil {
		return fmt.Errorf("open namespace: %w", err)
	}
	defer there.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: inner, PeerNamespace: netlink.NsFd(there)}); err != nil {
		return fmt.Errorf("make links: %w", err)
	}
	gateway, address := single(n.Gateway()), single(n.Address(number))
	err = Do(path, func() error {
		// Not IPv6: nobody has given rules for it.
		_ = setting("ipv6/conf/all/disable_ipv6", "1") // it may be off altogether
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName(inner)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetUp(lo),
			netlink.AddrAdd(link, &netlink.Addr{IPNet: address}), netlink.LinkSetUp(link),
			netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: gateway, Scope: netlink.SCOPE_LINK}),
			netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.IP}))
	})
	if err != nil {
		return fmt.Errorf("set up namespace: %w", err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link: %w", err)
	}
	// Clients on this machine's loopback come by way of the link, as the gateway's address; what comes
	// from the node to loopback by itself is refused by the rules.
	err = errors.Join(setting("ipv4/conf/"+name+"/route_localnet", "1"), netlink.AddrAdd(link, &netlink.Addr{IPNet: gateway}))
	_ = setting("ipv6/conf/"+name+"/disable_ipv6", "1")
	// The route last: it says that all else is there.
	if err = errors.Join(err, netlink.LinkSetUp(link)); err == nil {
		err = netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: address, Src: gateway.IP, Scope: netlink.SCOPE_LINK})
	}
	if err == nil {
		// Whoever asks for a link makes the kernel notice that its other end is up: by itself it
		// can take a second, in which packets are lost.
		err = Do(path, func() error { _, err := netlink.LinkByName(inner); return err })
	}
	if err != nil {
		return fmt.Errorf("set up link: %w", err)
	}
	return nil
}

// inner is what a node's link is called in its namespace.
const inner = "eth0"

func single(a netip.Addr) *net.IPNet { return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)} }

// wired reports whether a node's links are there, up, and lead to its namespace.
func (n *Network) wired(path, name string, number int) (bool, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return false, nil
		}
		return false, fmt.Errorf("find link: %w", err)
	}
	if link.Attrs().Flags&net.FlagUp == 0 {
		return false, nil
	}
	routes, err := listed(func() ([]netlink.Route, error) {
		of := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: single(n.Address(number))}
		return netlink.RouteListFiltered(netlink.FAMILY_V4, of, netlink.RT_FILTER_OIF|netlink.RT_FILTER_DST)
	})
	if err != nil || len(routes) == 0 {
		return false, err
	}
	whole := false
	err = Do(path, func() error {
		peer, err := netlink.LinkByName(inner)
		if err == nil {
			whole = peer.Attrs().ParentIndex == link.Attrs().Index && peer.Attrs().Flags&net.FlagUp != 0
		}
		return nil // none is there
	})
	return whole, err
}

// Remove takes a node's network away; nil when there is none. Its server must have ended.
func (n *Network) Remove(_ context.Context, number int) error {
	// The kernel takes some hundredths of a second, for which others don't wait.
	if link, err := netlink.LinkByName(n.linkName(number)); err == nil {
		if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove network of node %d: %w", number, err)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	err := removeNamespace(n.Path(number))
	if node, had := n.nodes[number]; had && err == nil {
		delete(n.nodes, number)
		err = n.change(n.part(node), nft.NewRuleset())
	}
	if err == nil {
		if err = os.Remove(n.nodeFile(number)); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("remove network of node %d: %w", number, err)
	}
	return nil
}

// Numbers are those of all nodes that anything is left of: namespaces, links or records.
func (n *Network) Numbers() ([]int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := map[int]bool{}
	note := func(name string) {
		if number, err := strconv.Atoi(strings.TrimPrefix(name, n.prefix)); err == nil && strings.HasPrefix(name, n.prefix) {
			all[number] = true
		}
	}
	for number := range n.nodes {
		all[number] = true
	}
	entries, err := os.ReadDir(n.o.RunDir)
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	for _, e := range entries {
		note(e.Name())
	}
	links, err := listed(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	for _, l := range links {
		note(l.Attrs().Name)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// repair makes the table what it should be and says what was wrong with it.
func (n *Network) repair() (string, error) {
	want := n.base()
	for _, node := range n.nodes {
		want.Add(n.part(node))
	}
	said, generation, err := n.table.Repair(want)
	if err == nil {
		n.generation = generation
	}
	return said, err
}

// Sweep brings rules back that somebody changed.
func (n *Network) Sweep() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	now, err := n.table.Generation()
	if err != nil || now == n.generation {
		return err
	}
	said, err := n.repair()
	if said != "" {
		n.log.Warn("somebody changed the table of databases' networks; it is what it should be again", "table", n.table.Name(), "found", said)
	}
	return err
}

func (n *Network) sweep(ctx context.Context) {
	wait.Every(ctx, sweepEvery, func() {
		if err := n.Sweep(); err != nil {
			n.log.Error("the table of databases' networks can't be looked after", "error", err)
		}
	})
}

// Close stops looking after the networks, which stay.
func (n *Network) Close() {
	n.closing()
	n.running.Wait()
	n.endCounting()
	_ = n.table.Close() // of sockets that are read no more
}

// Clear removes all networks, the table, what was changed in the machine's settings, and all records: the next
// Open may choose another network.
func (n *Network) Clear(ctx context.Context) error {
	numbers, err := n.Numbers()
	errs := []error{err}
	n.mu.Lock()
	for _, number := range numbers {
		if link, err := netlink.LinkByName(n.linkName(number)); err == nil {
			errs = append(errs, netlink.LinkDel(link))
		}
		errs = append(errs, removeNamespace(n.Path(number)))
	}
	n.mu.Unlock()
	n.closing()
	n.running.Wait()
	if err := netlink.RouteDel(n.nowhere()); err != nil && !errors.Is(err, unix.ESRCH) {
		errs = append(errs, err)
	}
	errs = append(errs, n.table.Delete(), n.table.Close())
	if n.forwards {
		errs = append(errs, os.WriteFile(forwardSetting, []byte("0"), 0))
		n.forwards = false
		errs = append(errs, n.save())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove networks: %w", err)
	}
	if err := os.RemoveAll(n.o.Dir); err != nil {
		return fmt.Errorf("remove networks: %w", err)
	}
	return nil
}
