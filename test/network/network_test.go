// Package network tries the built steward with the kernel's gateway, in a network of the tests' own: who reaches
// what, true addresses, what others do to our tables, and that nothing is left of them.
package network

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/vishvananda/netlink"

	"steward/internal/netns"
	"steward/internal/pgtest"
	"steward/internal/testdir"
	"steward/internal/testnet"
	"steward/test/harness"
)

// tryVariable has the program try to reach what is listed in it, and say what it reached.
const tryVariable = "STEWARD_TEST_TRY"

func TestMain(m *testing.M) {
	if list := os.Getenv(tryVariable); list != "" {
		for target := range strings.SplitSeq(list, ",") {
			network, address, _ := strings.Cut(target, "/")
			c, err := net.DialTimeout(network, address, time.Second)
			if err == nil {
				c.Close()
				fmt.Println(target)
			}
		}
		return
	}
	code := testnet.Run(m)
	harness.RemoveBinaries()
	os.Exit(code)
}

// place is a server whose gateway has addresses of its own, and a machine of clients.
type place struct {
	*harness.Server
	t               *testing.T
	n               int
	primary, second netip.Addr
	clients         *testnet.Host
}

var places atomic.Int32

func newPlace(t *testing.T) *place {
	t.Helper()
	return newPlaceWith(t, nil)
}

func newPlaceWith(t *testing.T, options []harness.Option, env ...string) *place {
	t.Helper()
	t.Parallel()
	testnet.Need(t)
	n := int(places.Add(1))
	prefix := func(format string) netip.Prefix { return netip.MustParsePrefix(fmt.Sprintf(format, n)) }
	p := &place{t: t, n: n, primary: prefix("172.18.%d.1/24").Addr(), second: prefix("172.18.%d.2/24").Addr()}
	p.clients = testnet.NewHost(t, fmt.Sprintf("clients%d", n), prefix("172.18.%d.1/24"), prefix("172.18.%d.100/24"))
	testnet.Address(t, p.clients.Outside, prefix("172.18.%d.2/24"))
	p.clients.AnyOf(prefix("172.19.%d.0/24"), prefix("172.18.%d.100/24").Addr())
	options = append(options, harness.OfBuilds("postgresql-15", "mariadb-10"), harness.WithConfig(fmt.Sprintf("isolation: {network: 10.%d.0.0/16}", 40+n)))
	p.Server = harness.Prepare(t, options...)
	p.Env = []string{"STEWARD_GATEWAY__PRIMARY_ADDRESS=" + p.primary.String(), "STEWARD_GATEWAY__SECONDARY_ADDRESS=" + p.second.String()}
	p.Env = append(p.Env, env...)
	p.Start()
	return p
}

// source is one of the clients' addresses.
func (p *place) source(i int) string { return fmt.Sprintf("172.19.%d.%d", p.n, i) }

// dial connects from one of them.
func (p *place) dial(i int) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (c net.Conn, err error) {
		err = netns.Do(p.clients.Path(), func() error {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(p.source(i))}, Timeout: 10 * time.Second}
			c, err = d.DialContext(ctx, network, address)
			return err
		})
		return c, err
	}
}

func (p *place) connect(d harness.Database, i int) *sql.DB {
	p.t.Helper()
	return p.connectAs(d, p.Credentials(d), i)
}

func (p *place) connectAs(d harness.Database, c harness.Credentials, i int) *sql.DB {
	p.t.Helper()
	db, err := harness.ConnectBy(p.t.Context(), d, c, p.dial(i))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { db.Close() })
	return db
}

func (p *place) open(label, engine string, sources ...int) harness.Database {
	p.t.Helper()
	spec := harness.Small(label, engine)
	spec["allow_list"] = p.list(sources...)
	return p.CreateActive(spec)
}

func (p *place) list(sources ...int) []string {
	list := make([]string, len(sources))
	for i, s := range sources {
		list[i] = p.source(s) + "/32"
	}
	return list
}

// node is where a database's first node is, and its server's process.
func (p *place) node(d harness.Database) (netip.AddrPort, int) {
	p.t.Helper()
	n := p.Primary(d)
	return netip.MustParseAddrPort(n.Address), n.Pid
}

// hash is what names are made of that follow from a folder.
func hash(folder string) string {
	sum := sha256.Sum256([]byte(folder))
	return hex.EncodeToString(sum[:4])
}

func (p *place) runFolder() string { return filepath.Join("/run/steward", hash(p.Data)) }

// TestNetwork: databases of one server are kept apart, see who their clients are, and stay reached whatever becomes of the tables.
func TestNetwork(t *testing.T) {
	p := newPlace(t)
	postgresql, mysql := p.open("postgresql", "postgresql/15", 7, 8), p.open("mysql", "mysql/10.11", 7, 8)
	for _, part := range []struct {
		name string
		try  func(t *testing.T)
	}{
		{"isolation", func(t *testing.T) { p.isolates(t, postgresql, mysql) }},
		{"true addresses of postgresql", func(t *testing.T) {
			p.seesWhoItIs(t, postgresql, "SELECT host(client_addr) FROM pg_stat_activity WHERE pid = pg_backend_pid()", "57P01")
		}},
		{"true addresses of mysql", func(t *testing.T) {
			p.seesWhoItIs(t, mysql, "SELECT SUBSTRING_INDEX(HOST, ':', 1) FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()", "")
		}},
		{"tables", func(t *testing.T) { p.restoresTables(t, postgresql) }},
	} {
		t.Run(part.name, func(t *testing.T) {
			outer := p.t
			p.t = t
			defer func() { p.t = outer }()
			part.try(t)
		})
	}
}

// isolates: from inside a database's network, as its user, nothing is reached but the nodes of its own cluster.
func (p *place) isolates(t *testing.T, mine, other harness.Database) {
	world := harness.Small("world", "postgresql/15")
	world["allow_list"] = []string{"0.0.0.0/0"}
	everybody := p.CreateActive(world)
	_, pid := p.node(mine)
	theirs, _ := p.node(other)
	gateway := theirs.Addr().As4()
	gateway[2], gateway[3] = 0, 1
	_, apiPort, err := net.SplitHostPort(p.Listen())
	if err != nil {
		t.Fatal(err)
	}
	machine := []string{p.primary.String(), netip.AddrFrom4(gateway).String(), "127.0.0.1"}

	service := listen(t, "tcp", "0.0.0.0:0")
	_, servicePort, _ := net.SplitHostPort(service)
	outside := ""
	p.clients.Do(func() error {
		_, port, err := net.SplitHostPort(listen(t, "tcp", "0.0.0.0:0"))
		outside = net.JoinHostPort(fmt.Sprintf("172.18.%d.100", p.n), port)
		return err
	})
	abstract := listen(t, "unix", fmt.Sprintf("@steward-test-isolation-%d-%d", os.Getpid(), p.n))
	stores, err := filepath.Glob(filepath.Join(p.runFolder(), "store", ".s.PGSQL.*[0-9]"))
	if err != nil || len(stores) == 0 {
		t.Fatalf("the store's socket: %v, %v", stores, err)
	}
	targets := []string{"tcp/" + theirs.String(), "tcp/" + outside, "unix/" + abstract, "unix/" + stores[0]}
	for _, address := range machine {
		targets = append(targets, "tcp/"+net.JoinHostPort(address, servicePort), "tcp/"+net.JoinHostPort(address, apiPort))
	}
	for _, address := range []netip.Addr{p.primary, p.second} {
		for _, d := range []harness.Database{other, everybody} {
			targets = append(targets, "tcp/"+netip.AddrPortFrom(address, uint16(d.Port)).String())
		}
	}
	// As root on the machine each is reached that is reached from anywhere.
	reached := try(t, "", 0, targets)
	for _, target := range targets {
		customers := strings.Contains(target, fmt.Sprintf(":%d", other.Port)) && !strings.Contains(target, theirs.String())
		api := strings.HasSuffix(target, ":"+apiPort) && !strings.Contains(target, "127.0.0.1")
		if !slices.Contains(reached, target) && !customers && !api {
			t.Errorf("%s isn't there: that it can't be reached shows nothing", target)
		}
	}
	uid := owner(t, pid)
	if uid < 1000 {
		t.Fatalf("the server runs as %d", uid)
	}
	if reached := try(t, fmt.Sprintf("/proc/%d/ns/net", pid), uid, targets); len(reached) > 0 {
		t.Errorf("from inside a database's network: %q", reached)
	}
	// Nor by datagrams, nor by IPv6.
	if got := datagram(t, fmt.Sprintf("/proc/%d/ns/net", pid), p.primary); got {
		t.Error("a datagram gets out of a database's network")
	}
	// A node isn't reached from outside but by the gateway.
	if reached := try(t, p.clients.Path(), 0, []string{"tcp/" + theirs.String()}); len(reached) > 0 {
		t.Errorf("from outside: %q", reached)
	}
	// Nor by users of the machine.
	if reached := try(t, "", 65534, []string{"tcp/" + theirs.String()}); len(reached) > 0 {
		t.Errorf("as a user of the machine: %q", reached)
	}
}

// try runs this program in a namespace as a user, who tries to reach targets.
func try(t *testing.T, namespace string, uid int, targets []string) (reached []string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "try")
	err = testdir.Copy(t.Context(), self, program)
	for dir := filepath.Dir(program); err == nil && dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), tryVariable+"="+strings.Join(targets, ","))
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, t.Output()
	if err := netns.Do(namespace, cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out.String())
}

// listen has something answer and returns where.
func listen(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

// datagram reports whether one gets from a namespace to an address of the machine.
func datagram(t *testing.T, namespace string, to netip.Addr) bool {
	t.Helper()
	l, err := net.ListenPacket("udp4", netip.AddrPortFrom(to, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = netns.Do(namespace, func() error {
		c, err := net.Dial("udp4", l.LocalAddr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("x"))
		return err
	})
	_ = err // it may be told
	_ = l.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _, err = l.ReadFrom(make([]byte, 1))
	return err == nil
}

func owner(t *testing.T, pid int) int {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

// loses takes the address of a session off the allow list, in the middle of a statement, and reports whether
// it was told in the server's words.
func (p *place) loses(d harness.Database, words string, kept, gone *sql.DB) (told bool) {
	t := p.t
	t.Helper()
	ended := make(chan error, 1)
	var heard time.Time
	session, err := gone.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	go func() {
		_, err := session.ExecContext(t.Context(), map[string]string{"postgresql": "SELECT pg_sleep(30)", "mysql": "DO SLEEP(30)"}[d.Engine])
		heard = time.Now()
		ended <- err
	}()
	p.Eventually("the statement runs", func() error {
		var n int
		err := kept.QueryRowContext(t.Context(), map[string]string{
			"postgresql": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'",
			"mysql":      "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'DO SLEEP%'",
		}[d.Engine]).Scan(&n)
		if err == nil && n == 0 {
			err = errors.New("not yet")
		}
		return err
	})
	begun := time.Now()
	if status, body := p.Call("PUT", d.Path(), map[string]any{"allow_list": p.list(7)}, nil); status != 200 {
		t.Fatal(status, body)
	}
	p.AwaitStatus(d, "active")
	active := time.Since(begun)
	select {
	case err := <-ended:
		told = err != nil && strings.Contains(err.Error(), words)
		t.Logf("%s: heard %v after %s, active again after %s", d.Engine, err, heard.Sub(begun), active)
	case <-time.After(time.Second):
		t.Errorf("%s: a removed address's session lives on", d.Engine)
	}
	return told
}

// seesWhoItIs: servers see who it is, and a removed address loses its sessions by the server's own words.
func (p *place) seesWhoItIs(t *testing.T, d harness.Database, whom, words string) {
	kept, gone := p.connect(d, 7), p.connect(d, 8)
	for i, db := range map[int]*sql.DB{7: kept, 8: gone} {
		var seen string
		if err := db.QueryRowContext(t.Context(), whom).Scan(&seen); err != nil || seen != p.source(i) {
			t.Errorf("it sees %q, %v; want %s", seen, err, p.source(i))
		}
	}
	// On a busy machine the server's words can take longer than they are given, a few times in a row.
	for round := 1; !p.loses(d, words, kept, gone); round++ {
		if round == 10 {
			t.Error("who was removed is cut each time, without a word")
			break
		}
		if status, body := p.Call("PUT", d.Path(), map[string]any{"allow_list": p.list(7, 8)}, nil); status != 200 {
			t.Fatal(status, body)
		}
		p.AwaitStatus(d, "active")
		gone = p.connect(d, 8)
	}
	if err := kept.PingContext(t.Context()); err != nil {
		t.Errorf("another address's session: %v", err)
	}
	if _, err := harness.ConnectBy(t.Context(), d, p.Credentials(d), p.dial(8)); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a removed address gets %v", err)
	}
}

// restoresTables: sessions survive steward's death, tables come back when somebody flushes them, under
// load, and are gone after stop --all, while others' stay.
func (p *place) restoresTables(t *testing.T, d harness.Database) {
	credentials := p.Credentials(d)
	db := p.connect(d, 7)
	conn := &nftables.Conn{}
	theirs := conn.AddTable(&nftables.Table{Name: fmt.Sprintf("theirs%d", p.n), Family: nftables.TableFamilyINet})
	conn.AddChain(&nftables.Chain{Name: "kept", Table: theirs})
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if err := db.PingContext(t.Context()); err != nil {
		t.Error("a session ended with steward:", err)
	}
	p.connectAs(d, credentials, 7)
	p.Start()
	ours := p.tables()
	if len(ours) != 2 {
		t.Fatalf("tables of ours: %v", ours)
	}
	for _, name := range ours {
		conn.FlushTable(&nftables.Table{Name: name, Family: nftables.TableFamilyINet})
		if err := conn.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	flushed := time.Now()
	p.Eventually("the tables are back", func() error {
		log, err := os.ReadFile(p.LogPath)
		if err != nil {
			return err
		}
		for _, what := range []string{"somebody changed the gateway's table", "somebody changed the table of databases' networks"} {
			if !strings.Contains(string(log), what) {
				return errors.New("the log doesn't tell: " + what)
			}
		}
		return nil
	})
	t.Logf("back and told after %s", time.Since(flushed))
	if took := time.Since(flushed); took > 5*time.Second {
		t.Errorf("the tables were away for %s", took)
	}
	p.connect(d, 7)
	if _, err := harness.ConnectBy(t.Context(), d, p.Credentials(d), p.dial(8)); err == nil {
		t.Error("an address gets in that isn't listed")
	}
	if err := db.PingContext(t.Context()); err != nil {
		t.Error("a session ended:", err)
	}
	p.Stop()
	if out, err := p.Command("stop", "--all", "--data", p.Data, "--config", p.ConfigPath()); err != nil {
		t.Fatal(err, out)
	}
	if left := p.tables(); len(left) > 0 {
		t.Errorf("tables that are left: %v", left)
	}
	if left := p.links(); len(left) > 0 {
		t.Errorf("links that are left: %v", left)
	}
	if _, err := os.Stat(p.runFolder()); !os.IsNotExist(err) {
		t.Errorf("the folder of namespaces: %v", err)
	}
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil || !slices.ContainsFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name == theirs.Name && c.Name == "kept" }) {
		t.Errorf("another's table was touched: %v", err)
	}
	conn.DelTable(theirs)
	if err := conn.Flush(); err != nil {
		t.Error(err)
	}
	p.Start()
	p.AwaitStatus(d, "active")
	p.Eventually("it serves again", func() error {
		again, err := harness.ConnectBy(t.Context(), d, p.Credentials(d), p.dial(7))
		if err == nil {
			again.Close()
		}
		return err
	})
}

// tables are the server's: their names follow from its data folder.
func (p *place) tables() (list []string) {
	p.t.Helper()
	all, err := (&nftables.Conn{}).ListTables()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, table := range all {
		if table.Name == "steward-gateway-"+hash(filepath.Join(p.Data, "gateway")) || table.Name == "steward-network-"+hash(filepath.Join(p.Data, "networks")) {
			list = append(list, table.Name)
		}
	}
	return list
}

// links are those of the server's nodes.
func (p *place) links() (list []string) {
	p.t.Helper()
	all, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		p.t.Fatal(err)
	}
	for _, l := range all {
		if strings.HasPrefix(l.Attrs().Name, "sw"+hash(filepath.Join(p.Data, "networks"))[:5]) {
			list = append(list, l.Attrs().Name)
		}
	}
	return list
}

// TestSwitchover: who opens a connection for each statement sees no error while three nodes are patched.
func TestSwitchover(t *testing.T) { switchover(t) }

// TestSwitchoverThorough: nor while they are resized, over and over.
func TestSwitchoverThorough(t *testing.T) { switchover(t, "g6-standard-1", "g6-standard-2") }

func switchover(t *testing.T, plans ...string) {
	p := newPlace(t)
	p.Stop()
	store, builds := pgtest.MigratedURL(t), t.TempDir()
	p.Env = append(p.Env, "STEWARD_ENGINES__FOLDERS="+builds)
	older := map[string]string{"postgresql/15": "postgresql-15.17-npm", "mysql/10.11": "mariadb-10.11.18-debian-unpacked"}
	for _, build := range []string{older["postgresql/15"], "postgresql-15.18-npm", older["mysql/10.11"], "mariadb-10.11.19-debian-unpacked"} {
		harness.InstallEngine(t, builds, build)
	}
	p.Start("--store", store)
	for engine, build := range older {
		harness.BeginWith(t, store, build)
		family, _, _ := strings.Cut(engine, "/")
		spec := harness.Small("switchover-"+family, engine)
		spec["allow_list"], spec["cluster_size"] = p.list(7), 3
		d := p.AwaitHealthy(p.CreateActive(spec), 3)
		t.Run(family, func(t *testing.T) {
			credentials := p.Credentials(d)
			if _, err := p.connect(d, 7).ExecContext(t.Context(), "CREATE TABLE kept (n int PRIMARY KEY)"); err != nil {
				t.Fatal(err)
			}
			before := d.ServerVersion
			p.switchesOver(t, d, credentials, "POST", "/patch", nil)
			if now := p.AwaitStatus(d, "active"); now.ServerVersion == before {
				t.Errorf("patched, it runs %s as before", before)
			}
			for _, plan := range plans {
				p.switchesOver(t, d, credentials, "PUT", "", map[string]any{"type": plan})
			}
		})
	}
}

// switchesOver changes a database, in which nobody sees an error but those who do nothing: they are told in the
// server's own words, though they write before they read.
func (p *place) switchesOver(t *testing.T, d harness.Database, credentials harness.Credentials, method, path string, change map[string]any) {
	t.Helper()
	idle, err := p.connectAs(d, credentials, 7).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	busy := make(chan error, 1)
	go func() { busy <- p.waits(t, d, credentials) }()
	before := p.Primary(d)
	w := &writer{p: p, d: d, credentials: credentials, first: int(written.Add(1)) * 1_000_000}
	stop := w.start(t)
	if status, body := p.Call(method, d.Path()+path, change, nil); status != 200 {
		t.Fatal(status, body)
	}
	p.Eventually(d.Label+" to hand over", func() error {
		if now := p.Primary(d); now.Ordinal == before.Ordinal {
			return fmt.Errorf("node %d is still the primary", now.Ordinal)
		}
		return nil
	})
	p.AwaitStatus(d, "active")
	p.AwaitHealthy(d, 3)
	stop()
	t.Logf("%s, %s %s: %d statements, each by a connection of its own, the longest took %s", d.Engine, method, path, w.done, w.longest)
	if len(w.failed) > 0 {
		t.Errorf("statements failed: %v", w.failed)
	}
	err = idle.Raw(func(driver any) error { // the library's pool would only say that the connection is bad
		if c, ok := driver.(*stdlib.Conn); ok {
			_, err := c.Conn().Exec(t.Context(), "SELECT 1")
			return err
		}
		return errors.New("not looked at")
	})
	if err == nil {
		t.Error("an idle session of the former primary lives on")
	}
	if d.Engine == "postgresql" && (err == nil || !strings.Contains(err.Error(), "57P01")) {
		t.Errorf("an idle session hears %v", err)
	}
	if err := <-busy; d.Engine == "postgresql" && (err == nil || !strings.Contains(err.Error(), "57P01")) {
		t.Errorf("a session with a long statement hears %v", err)
	}
}

// waits is at a statement for longer than a switchover takes, and returns how that ended.
func (p *place) waits(t *testing.T, d harness.Database, credentials harness.Credentials) error {
	db, err := harness.ConnectBy(t.Context(), d, credentials, p.dial(7))
	if err != nil {
		return err
	}
	defer db.Close()
	statement := "SELECT sleep(600)"
	if d.Engine == "postgresql" {
		statement = "SELECT pg_sleep(600)"
	}
	_, err = db.ExecContext(t.Context(), statement)
	return err
}

// written counts the writers: each has keys of its own.
var written atomic.Int32

// writer opens a connection for each statement.
type writer struct {
	p           *place
	d           harness.Database
	credentials harness.Credentials
	done        int
	longest     time.Duration
	failed      []error
	// first is the first key of its own.
	first int
}

func (w *writer) start(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	writing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			begun := time.Now()
			if err := w.write(t.Context(), w.first+n); err != nil {
				w.failed = append(w.failed, fmt.Errorf("%s: %w", begun.Format("15:04:05.000"), err))
			}
			w.longest = max(w.longest, time.Since(begun))
			w.done++
			time.Sleep(20 * time.Millisecond) // a new connection each time takes the servers long enough
		}
	})
	return sync.OnceFunc(func() { cancel(); writing.Wait() })
}

func (w *writer) write(ctx context.Context, n int) error {
	db, err := harness.ConnectBy(ctx, w.d, w.credentials, w.p.dial(7))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// TestChangeOfDriver: databases of HAProxy's go on with it until all were stopped, then move into networks of
// their own, and back.
func TestChangeOfDriver(t *testing.T) { changeOfDriver(t, "mysql/10.11", 3) }

func TestChangeOfDriverThorough(t *testing.T) { changeOfDriver(t, "postgresql/15", 3) }

func changeOfDriver(t *testing.T, engine string, size int) {
	p := newPlace(t)
	p.Stop()
	base := p.Env
	as := func(driver string) {
		t.Helper()
		p.Env = append(slices.Clone(base), "STEWARD_GATEWAY__DRIVER="+driver)
	}
	stopAll := func() {
		t.Helper()
		p.Stop()
		if out, err := p.Command("stop", "--all", "--data", p.Data, "--config", p.ConfigPath()); err != nil {
			t.Fatal(err, out)
		}
	}
	as("haproxy")
	p.Start()
	spec := harness.Small("moves", engine)
	spec["allow_list"], spec["cluster_size"] = p.list(7), size // HAProxy hides where customers come from: they are all let in
	d := p.CreateActive(spec)
	serve := func(loopback bool, said string) {
		t.Helper()
		p.AwaitHealthy(d, size)
		p.Eventually("it serves", func() error {
			db, err := harness.ConnectBy(t.Context(), d, p.Credentials(d), p.dial(7))
			if err == nil {
				db.Close()
			}
			return err
		})
		if at, _ := p.node(d); at.Addr().IsLoopback() != loopback {
			t.Errorf("its server is at %s", at)
		}
		log, err := os.ReadFile(p.LogPath)
		if last := string(log[max(0, strings.LastIndex(string(log), "the gateway\" driver")):]); err != nil || !strings.Contains(last[:min(len(last), 400)], said) {
			t.Errorf("the log doesn't say %q: %.400s, %v", said, last, err)
		}
	}
	serve(true, "driver=haproxy")
	p.Stop()
	as("kernel")
	p.Launch()
	select {
	case <-p.Exited():
	case <-time.After(harness.Patience):
		t.Fatal("it runs as something that it can't be")
	}
	if log, err := os.ReadFile(p.LogPath); err != nil || !strings.Contains(string(log), "`steward stop --all` first") {
		t.Errorf("it doesn't say why: %v", err)
	}
	as("auto")
	p.Start()
	serve(true, "stop --all")
	stopAll()
	p.Start()
	serve(false, "driver=kernel")
	p.Kill()
	p.Start()
	serve(false, "driver=kernel")
	stopAll()
	as("haproxy")
	p.Start()
	serve(true, "driver=haproxy")
	if left := append(p.tables(), p.links()...); len(left) > 0 {
		t.Errorf("left of the kernel's gateway: %v", left)
	}
}
