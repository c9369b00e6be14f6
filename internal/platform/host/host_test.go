package host_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	mysqlengine "steward/internal/engine/mysql"
	"steward/internal/engine/postgresql"
	"steward/internal/gateway"
	"steward/internal/gateway/kernel"
	"steward/internal/netns"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/platform/platformtest"
	"steward/internal/process"
	"steward/internal/testdir"
	"steward/internal/testnet"
)

func TestPlatform(t *testing.T) { testPlatform(t, false) }

// TestPlatformThorough tries what TestPlatform leaves.
func TestPlatformThorough(t *testing.T) { testPlatform(t, true) }

// testPlatform has PostgreSQL try all, and each flavour of the other family what depends on it. Of that, TestPlatform leaves the platform's
// own, and what TestFailover has MariaDB do.
func testPlatform(t *testing.T, rest bool) {
	t.Helper()
	t.Parallel()
	found, notes := installations()
	for _, n := range notes {
		t.Logf("not usable: %v", n)
	}
	if len(found) == 0 {
		t.Fatal("no database server was found on this machine")
	}
	for _, b := range benches(found) {
		if b.Engine == cluster.MySQL && !b.Encrypted && !enginetest.Thorough() {
			continue // the encrypted one has to do the same, and more; others run plain ones
		}
		if rest && b.Engine == cluster.PostgreSQL {
			continue
		}
		name := fmt.Sprintf("%s-%s", b.Engine, b.Series)
		if b.Encrypted {
			name += "-encrypted"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel() // much of the time is spent waiting for servers and disks
			// Only this series: templates of all others would be made ahead too.
			b.Short = b.Engine != cluster.PostgreSQL && !enginetest.Thorough()
			if b.Engine != cluster.PostgreSQL {
				b.Tries = func(name string) bool { return slices.Contains(triedByEach, name) != rest }
			}
			platformtest.Run(t, newSite(t, ofSeries(found, b)).bench(b))
		})
	}
}

// triedByEach are the cases of the platform's suite that `make test` has each flavour try: a server's keys have to survive both.
var triedByEach = []string{"a created cluster serves", "after a reboot Apply brings everything back"}

func engines() map[cluster.Engine]engine.Driver {
	return map[cluster.Engine]engine.Driver{
		cluster.PostgreSQL: postgresql.Driver{}, cluster.MySQL: mysqlengine.New(slog.New(slog.DiscardHandler)),
	}
}

// installations are this machine's, with those that were fetched for tests, ofDistribution those without. Each program is asked once
// for its version.
var (
	installations  = sync.OnceValues(func() ([]engine.Installation, []error) { return discover(enginetest.EnginesFolder()) })
	ofDistribution = sync.OnceValues(func() ([]engine.Installation, []error) { return discover() })
)

func discover(folders ...string) ([]engine.Installation, []error) {
	return host.Discover(context.Background(), engines(), folders)
}

// benches picks, of each family, the series with the most versions: one with
// two of a builder lets patches be tried. MySQL's family also runs encrypted.
func benches(found []engine.Installation) []platformtest.Bench {
	var list []platformtest.Bench
	for _, flavour := range []engine.Flavour{engine.FlavourPostgreSQL, engine.FlavourMariaDB, engine.FlavourMySQL} {
		var chosen platformtest.Bench
		for _, i := range found {
			if i.Flavour != flavour {
				continue
			}
			b := platformtest.Bench{Engine: i.Family(), Series: i.Series}
			for _, j := range found {
				if j.Flavour == i.Flavour && j.Series == i.Series && j.Builder == i.Builder && engine.CompareVersions(j.Version, i.Version) > 0 {
					b.Older, b.Newer = i.ID(), j.ID()
				}
			}
			if chosen.Series == "" || chosen.Older == "" && b.Older != "" {
				chosen = b
			}
		}
		if chosen.Series == "" {
			continue
		}
		list = append(list, chosen)
		if chosen.Engine == cluster.MySQL {
			chosen.Encrypted = true
			list = append(list, chosen)
		}
	}
	return list
}

func ofSeries(found []engine.Installation, b platformtest.Bench) []engine.Installation {
	var list []engine.Installation
	for _, i := range found {
		if i.Family() == b.Engine && i.Series == b.Series {
			list = append(list, i)
		}
	}
	return list
}

// site is a data folder with what goes with it: what stays while drivers come and go.
type site struct {
	t          *testing.T
	o          host.Options
	kernel     bool // the driver of the gateway
	gateway    opened
	unreliable *unreliableGateway // the same, as drivers see it
	secrets    *platformtest.Secrets
	store      *unreliableStore // what drivers get secrets from
	firstPort  int
	// network is where servers' addresses are from, driver who ends their sessions.
	network netip.Prefix
	driver  atomic.Pointer[host.Driver]
}

// opened is a gateway of either driver.
type opened interface {
	host.Gateway
	Close()
	Stop(ctx context.Context) error
}

// newSite has the kernel's gateway, with networks for servers, where that is possible; but for MySQL, on which
// the suites that are the same for all engines try HAProxy.
func newSite(t *testing.T, found []engine.Installation) *site {
	t.Helper()
	haproxy := len(found) > 0 && found[0].Flavour == engine.FlavourMySQL
	return newSiteWith(t, found, testnet.Inside() && !haproxy)
}

func newSiteWith(t *testing.T, found []engine.Installation, kernel bool) *site {
	t.Helper()
	testdir.NeedsServers(t)
	return newSiteIn(t, found, kernel, testdir.New(t, "ht"))
}

// newSiteIn has all its data in a folder.
func newSiteIn(t *testing.T, found []engine.Installation, kernel bool, dir string) *site {
	t.Helper()
	s := &site{t: t, kernel: kernel, secrets: platformtest.NewSecrets(), firstPort: testdir.Ports(t, 10)}
	level := slog.LevelInfo
	if testing.Verbose() {
		level = slog.LevelDebug
	}
	s.store = &unreliableStore{Secrets: s.secrets}
	s.o = host.Options{
		DataDir: filepath.Join(dir, "data"), RunDir: filepath.Join(dir, "run"), KeysDir: filepath.Join("/dev/shm", filepath.Base(dir)+"-keys"),
		Engines: engines(), Installations: found, Secrets: s.store,
		Ports:          [2]int{s.firstPort, s.firstPort + 9},
		PrimaryAddress: netip.MustParseAddr("127.0.0.1"), SecondaryAddress: netip.MustParseAddr("127.0.0.2"),
		UIDBase:   700000, // without clones made ahead: each that is left over was a copy for nothing
		Isolation: host.Isolation{Bubblewrap: "auto", Cgroups: "auto"},
		Logger:    slog.New(slog.NewTextHandler(newTestLog(t), &slog.HandlerOptions{Level: level})),
	}
	if err := os.MkdirAll(s.o.RunDir, 0o711); err != nil {
		t.Fatal(err)
	}
	s.prepare(t)
	s.openGateway(t)
	t.Cleanup(func() {
		s.stopEverything()
		if err := os.RemoveAll(s.o.KeysDir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// sites counts those with networks: each has a range of its own.
var sites atomic.Int32

// openKernel opens networks and the kernel's gateway.
func (s *site) openKernel(t *testing.T) {
	t.Helper()
	if !s.network.IsValid() {
		s.network = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(10 + sites.Add(1)%200), 0, 0}), 16)
	}
	var err error
	ctx, base := context.WithoutCancel(t.Context()), filepath.Dir(s.o.DataDir)
	s.o.Networks, err = netns.Open(ctx, netns.Options{Dir: s.networkDir(), RunDir: filepath.Join(base, "ns"), Network: s.network, Logger: s.o.Logger})
	if err != nil {
		t.Fatal(err)
	}
	g, err := kernel.Open(ctx, kernel.Options{
		Dir: filepath.Join(base, "gateway"), PrimaryAddr: s.o.PrimaryAddress, SecondaryAddr: s.o.SecondaryAddress, Ports: s.o.Ports, Logger: s.o.Logger,
		Namespace: s.o.Networks.PathOf, End: func(ctx context.Context, sessions []kernel.Session) {
			if d := s.driver.Load(); d != nil {
				d.EndSessions(ctx, sessions)
			}
		},
		Retire: func(ctx context.Context, sessions []kernel.Session, idle time.Duration) {
			if d := s.driver.Load(); d != nil {
				d.RetireSessions(ctx, sessions, idle)
			}
		},
		Waiting: func(port, held int) {
			if d := s.driver.Load(); d != nil {
				d.Waiting(port, held)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.lead(g)
}

func (s *site) networkDir() string { return filepath.Join(filepath.Dir(s.o.DataDir), "networks") }

func (s *site) lead(g opened) {
	s.gateway, s.unreliable = g, &unreliableGateway{Gateway: g}
	s.o.Gateway = s.unreliable
}

// openGateway opens the gateway, or starts HAProxy.
func (s *site) openGateway(t *testing.T) {
	t.Helper()
	if s.kernel {
		s.openKernel(t)
		return
	}
	o := gateway.Options{
		Dir: filepath.Join(filepath.Dir(s.o.DataDir), "gateway"), RunDir: filepath.Join(filepath.Dir(s.o.DataDir), "gw"),
		PrimaryAddr: s.o.PrimaryAddress, SecondaryAddr: s.o.SecondaryAddress, Ports: s.o.Ports, Logger: s.o.Logger,
	}
	g, err := gateway.Open(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatal(err)
	}
	s.lead(g)
}

func (s *site) open(t *testing.T) *host.Driver {
	t.Helper()
	d, err := host.New(t.Context(), s.o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// serves has a driver's servers end sessions.
func (s *site) serves(d *host.Driver) {
	s.driver.Store(d)
	d.Start()
}

// stopEverything is the safety net: whatever a test left running ends. No server is asked to stop, since nobody needs its data any more.
func (s *site) stopEverything() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	scope := host.ScopeOf(s.o.DataDir)
	marked, err := process.Marked(scope + "/")
	if err != nil {
		s.t.Error(err)
	}
	for _, mark := range append(slices.Sorted(maps.Keys(marked)), "") {
		if err := process.KillAll(ctx, process.Identity{Mark: mark, Dir: s.o.DataDir}, nil); err != nil {
			s.t.Error(err)
		}
	}
	if err := s.gateway.Stop(ctx); err != nil {
		s.t.Error(err)
	}
	if s.kernel {
		if err := s.o.Networks.Clear(ctx); err != nil {
			s.t.Error(err)
		}
	}
	if err := removeGroups(ctx, "steward-"+scope); err != nil {
		s.t.Error(err)
	}
}

// removeGroups takes the control groups below a folder away, and the folder.
func removeGroups(ctx context.Context, folder string) error {
	groups, err := process.FindGroups(folder)
	if err != nil {
		return nil // this machine has none
	}
	names, err := groups.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := groups.Find(name).Remove(ctx); err != nil {
			return err
		}
	}
	return groups.Close(ctx)
}

func (s *site) bench(b platformtest.Bench) *platformtest.Bench {
	b.Secrets, b.Port = s.secrets, s.firstPort
	b.Sizes, b.Suspends, b.Restarts = []int{3}, true, true
	b.Open = func(t *testing.T) (platform.Driver, func()) {
		d := s.open(t)
		s.serves(d)
		return d, sync.OnceFunc(d.Close)
	}
	b.Login = s.login
	b.Kill = func(t *testing.T, d platform.Driver, id cluster.ID) {
		t.Helper()
		pid := s.pid(t, id)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill %d: %v", pid, err)
		}
		await.True(t, "the process to be gone", func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
	}
	b.Reboot = func(t *testing.T) {
		t.Helper()
		if err := process.KillAll(t.Context(), process.Identity{Dir: s.o.DataDir}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.gateway.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.kernel { // namespaces, links and tables go, what is on the disk stays
			kept := t.TempDir()
			if err := os.CopyFS(kept, os.DirFS(s.networkDir())); err != nil {
				t.Fatal(err)
			}
			if err := s.o.Networks.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(s.networkDir(), os.DirFS(kept)); err != nil {
				t.Fatal(err)
			}
		}
		s.openGateway(t)
		for _, dir := range []string{s.o.RunDir, s.o.KeysDir} {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		records, err := filepath.Glob(filepath.Join(s.o.DataDir, "clusters/*/node-0/node.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range records {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			boot, err := process.BootID()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(content), boot, "an earlier boot")), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Orphan = s.orphan
	b.Leftovers = s.leftovers
	return &b
}

// nodes are what `steward node list` would print: another process, which looks for neither builds nor a sandbox.
func (s *site) nodes(t *testing.T) []host.NodeInfo {
	t.Helper()
	o := s.o
	o.Installations, o.Isolation = []engine.Installation{}, host.Isolation{Bubblewrap: "off", Cgroups: "off"}
	d, err := host.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	nodes, err := d.Nodes()
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// pid is what `steward node list --pid` would print, 0 for none.
func (s *site) pid(t *testing.T, id cluster.ID) int {
	t.Helper()
	for _, n := range s.nodes(t) {
		if n.Cluster == id {
			return n.Pid
		}
	}
	return 0
}

// orphan is a process, a folder and a route that no cluster owns.
func (s *site) orphan(t *testing.T, id cluster.ID, port int) {
	t.Helper()
	dir := filepath.Join(s.o.DataDir, "clusters", fmt.Sprint(id), "node-0")
	run := filepath.Join(s.o.RunDir, fmt.Sprintf("%d-0", id))
	for _, d := range []string{dir, run} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := process.Start(process.Spec{
		Identity: process.Identity{Mark: host.ScopeOf(s.o.DataDir) + fmt.Sprintf("/%d-0", id)},
		Argv:     []string{"/bin/sleep", "1000"}, WorkDir: "/",
		Output: filepath.Join(dir, "output.log"), PidFile: filepath.Join(dir, "pid"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.gateway.Set(t.Context(), gateway.Route{Cluster: id, Port: port}); err != nil {
		t.Fatal(err)
	}
}

func (s *site) leftovers(t *testing.T, id cluster.ID, port int) []string {
	t.Helper()
	var left []string
	name := fmt.Sprintf("%d-0", id)
	for what, path := range map[string]string{
		"folder": filepath.Join(s.o.DataDir, "clusters", fmt.Sprint(id)),
		"run":    filepath.Join(s.o.RunDir, name), "keys": filepath.Join(s.o.KeysDir, name),
	} {
		if _, err := os.Lstat(path); err == nil {
			left = append(left, what)
		}
	}
	processes, err := process.Identity{
		Mark: host.ScopeOf(s.o.DataDir) + "/" + name, Dir: filepath.Join(s.o.DataDir, "clusters", fmt.Sprint(id)),
	}.Members()
	if err != nil {
		t.Fatal(err)
	}
	if len(processes) > 0 {
		left = append(left, fmt.Sprintf("processes %v", processes))
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/steward-" + host.ScopeOf(s.o.DataDir) + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) > 0 {
		left = append(left, "control groups")
	}
	if s.kernel {
		numbers, err := s.o.Networks.Numbers()
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(numbers, func(n int) bool { return s.o.Networks.SameCluster(n, port) }) {
			left = append(left, "networks", "port")
		}
	}
	routes, err := s.gateway.Routes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(routes, func(r gateway.Recorded) bool { return r.Cluster == id || r.Port == port }) {
		left = append(left, "route")
	}
	if l, err := net.Listen("tcp", fmt.Sprintf("127.0.77.1:%d", port)); err != nil {
		left = append(left, "port")
	} else {
		l.Close()
	}
	return left
}

// login does what a customer does, from an address: TLS with the cluster's CA,
// through the gateway, as dbadmin, and a statement that writes.
func (s *site) login(ctx context.Context, c cluster.Cluster, from netip.Addr, password string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.secrets.Text(c.ID, platform.CACert)))
	l := customer{
		at:     netip.AddrPortFrom(s.o.PrimaryAddress, uint16(c.Port)),
		dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: 20 * time.Second},
		secure: &tls.Config{RootCAs: roots, ServerName: s.o.PrimaryAddress.String()}, password: password,
	}
	if c.Engine == cluster.PostgreSQL {
		return l.postgreSQL(ctx)
	}
	return l.mySQL(ctx)
}

type customer struct {
	at       netip.AddrPort
	dialer   *net.Dialer
	secure   *tls.Config
	password string
}

func (l customer) postgreSQL(ctx context.Context) error {
	config, err := pgx.ParseConfig("")
	if err != nil {
		return err
	}
	config.Host, config.Port, config.User, config.Password, config.Database = l.at.Addr().String(), l.at.Port(), "dbadmin", l.password, "defaultdb"
	config.TLSConfig, config.Fallbacks, config.DialFunc = l.secure, nil, l.dialer.DialContext
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE TEMPORARY TABLE proof (x int)")
	return err
}

func (l customer) mySQL(ctx context.Context) error {
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd, config.DBName, config.TLS = "tcp", l.at.String(), "dbadmin", l.password, "defaultdb", l.secure
	config.DialFunc = l.dialer.DialContext
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	_, err = db.ExecContext(ctx, "CREATE OR REPLACE VIEW proof AS SELECT 1")
	return err
}

// testLog keeps what a test's drivers say for the case that it fails: others' say too much to find what went wrong.
type testLog struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func newTestLog(t *testing.T) io.Writer {
	t.Helper()
	if testing.Verbose() {
		return os.Stderr
	}
	l := &testLog{}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.Failed() {
			t.Logf("what its drivers said:\n%s", &l.said)
		}
	})
	return l
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(p)
}
