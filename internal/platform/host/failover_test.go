package host_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/engine/enginetest"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/platform/host/build"
	"steward/internal/platform/platformtest"
)

// TestFailover makes faults happen to clusters of three, while customers write, and demands every acknowledged write afterwards.
func TestFailover(t *testing.T) { testFailover(t, false) }

// TestFailoverThorough has further faults happen, and MySQL meet those that are each engine's.
func TestFailoverThorough(t *testing.T) { testFailover(t, true) }

func testFailover(t *testing.T, thorough bool) {
	t.Helper()
	t.Parallel()
	found, _ := installations()
	for _, b := range benches(found) {
		if b.Encrypted {
			continue
		}
		slowest := ofSeries(found, b)[0].Flavour == engine.FlavourMySQL // its servers take a second of a processor to start and stop
		for _, mode := range modes(b) {
			cases := slices.DeleteFunc(slices.Clone(faults), func(f threeNodesCase) bool { return !f.tried(b, slowest, thorough) })
			if len(cases) == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s-%s-%s", b.Engine, b.Series, mode.name), func(t *testing.T) {
				t.Parallel()
				h := newThreeNodes(t, ofSeries(found, b), b, mode)
				for _, c := range cases {
					t.Run(c.name, func(t *testing.T) {
						h.t = t
						c.do(h)
					})
				}
			})
		}
	}
}

// threeNodesCase is what happens to a cluster of three.
type threeNodesCase struct {
	name string
	do   func(*threeNodes)
	// on says on which engines it is tried, thorough on which TestFailoverThorough tries it besides.
	on, thorough scope
}

// tried reports whether one of the two tests tries it on an engine.
func (c threeNodesCase) tried(b platformtest.Bench, slowest, thorough bool) bool {
	switch here, there := c.on.includes(b), c.thorough.includes(b); {
	case slowest && !enginetest.Thorough():
		return thorough && (here || there)
	case thorough:
		return there && !here
	default:
		return here
	}
}

var faults = []threeNodesCase{
	{"nodes report their replication", (*threeNodes).reportsReplication, onEachEngine, nowhere},
	{"owners look inside", (*threeNodes).looksInside, onEachFamily, nowhere},
	{"the primary's server is killed", (*threeNodes).killsPrimary, onPostgreSQL, nowhere},
	{"the primary's server is killed again and again", (*threeNodes).killsPrimaryAgain, nowhere, onPostgreSQL},
	{"customers see no password of replicas", (*threeNodes).hidesPassword, onEachEngine, nowhere},
	{"the primary's server is stopped", (*threeNodes).stopsPrimary, onPostgreSQL, nowhere},
	{"the primary's server is killed while the store fails", (*threeNodes).killsPrimaryWhileStoreFails, nowhere, onPostgreSQL},
	{"the primary's server is killed while the store hangs", (*threeNodes).killsPrimaryWhileStoreHangs, onPostgreSQL, nowhere},
	{"the primary's server is stopped while the store hangs", (*threeNodes).stopsPrimaryWhileStoreHangs, nowhere, onPostgreSQL},
	{"the primary's server is killed while nothing works at first", (*threeNodes).killsPrimaryWhileNothingWorks, nowhere, onPostgreSQL},
	{"a replica's server is killed", (*threeNodes).killsReplica, onPostgreSQL, nowhere},
	{"a replica's data is removed", (*threeNodes).removesReplica, onEachEngine, nowhere},
	{"primary and one replica are killed", (*threeNodes).killsTwo, nowhere, onPostgreSQL},
	{"all three are killed", (*threeNodes).killsAll, onPostgreSQL, onEachFamily},
	{"the primary hangs, and replicas are killed that have not applied what they acknowledged", (*threeNodes).killsBehind, onMySQL, nowhere},
	{"the primary is killed while steward is down", (*threeNodes).killsWhileDown, nowhere, onPostgreSQL},
	{"the primary's data is removed", (*threeNodes).removesPrimary, onPostgreSQL, nowhere},
	{"the primary's data is damaged", (*threeNodes).damagesPrimary, onPostgreSQL, onEachFamily},
	{"a planned restart of all", (*threeNodes).resizes, nowhere, onEachFamily},
	{"settings that need a restart", (*threeNodes).reconfigures, nowhere, onPostgreSQL},
	{"a patch of all", (*threeNodes).patches, onEachFamily, nowhere},
}

type mode struct {
	name        string
	replication cluster.Replication
	commit      cluster.Commit
}

// scope is where a fault is tried when tests mayn't take their time.
type scope int

const (
	// onPostgreSQL is what the platform does alike with every engine. The engines' suites
	// try on each what it asks of them.
	onPostgreSQL scope = iota
	// onEachFamily is also tried on the flavour of MySQL's family with two builds.
	onEachFamily
	// onEachEngine leaves out none, be it as slow as it may.
	onEachEngine
	// onMySQL is about what only that family's servers do.
	onMySQL
	nowhere
)

func (s scope) includes(b platformtest.Bench) bool {
	switch s {
	case nowhere:
		return false
	case onMySQL:
		return b.Engine == cluster.MySQL && (b.Older != "" || enginetest.Thorough())
	}
	return s == onEachEngine || b.Engine == cluster.PostgreSQL || s == onEachFamily && b.Older != "" || enginetest.Thorough()
}

// modes are tried all when tests may take their time: the engines' suites fail over
// in each.
func modes(b platformtest.Bench) []mode {
	all := []mode{{"semi_synch", cluster.SemiSynch, ""}, {"asynch", cluster.Asynch, ""}}
	if b.Engine == cluster.PostgreSQL {
		all = []mode{{"local", cluster.Asynch, cluster.CommitLocal}, {"on", cluster.Asynch, cluster.CommitOn}}
	}
	if !enginetest.Thorough() {
		all = all[:1]
	}
	return all
}

// threeNodes is a cluster of three under load.
type threeNodes struct {
	t    *testing.T
	s    *site
	want platform.Wanted
	mode mode

	driver  *host.Driver
	stop    context.CancelFunc
	keeping sync.WaitGroup
	load    *load
	// newer is the build to patch to; "" when there is none.
	newer string
	// killed are the processes that must not be seen again.
	killed map[int]bool
}

func newThreeNodes(t *testing.T, found []engine.Installation, b platformtest.Bench, m mode) *threeNodes {
	t.Helper()
	return newCluster(t, found, b, m, 3)
}

func newCluster(t *testing.T, found []engine.Installation, b platformtest.Bench, m mode, size int) *threeNodes {
	t.Helper()
	s := newSite(t, found)
	h := &threeNodes{t: t, s: s, mode: m, want: s.bench(b).Wanted(t, 301)}
	h.want.Size, h.want.Replication, h.want.Commit = size, m.replication, m.commit
	h.want.Installation, h.newer = b.Older, b.Newer
	h.want.Config = chosen(b.Engine)
	h.open()
	t.Cleanup(h.close)
	h.healthy()
	h.load = newLoad(t, s, h.want.Cluster)
	return h
}

// open starts what steward is to a cluster: a driver, and someone who applies
// whenever something changed.
func (h *threeNodes) open() {
	h.driver = h.s.open(h.t)
	h.s.serves(h.driver)
	h.keep()
}

// keep begins to apply what is wanted.
func (h *threeNodes) keep() {
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	h.keeping.Go(func() {
		for ctx.Err() == nil {
			if seen, err := h.driver.Apply(ctx, h.want); err == nil && seen.Settled {
				select {
				case <-h.driver.Changes():
				case <-time.After(time.Second):
				case <-ctx.Done():
				}
			} else {
				select {
				case <-time.After(250 * time.Millisecond): // as soon as converge looks again
				case <-ctx.Done():
				}
			}
		}
	})
}

func (h *threeNodes) close() {
	h.stop()
	h.keeping.Wait()
	h.driver.Close()
}

// withoutStore takes the store away while something happens. Nobody applies
// anything meanwhile, as whoever does that asks the store first; one who has begun
// waits for it.
func (h *threeNodes) withoutStore(state int32, happens func()) {
	h.t.Helper()
	h.stop()
	h.keeping.Wait()
	h.s.store.state.Store(state)
	waiting, cancel := context.WithCancel(context.Background())
	var begun sync.WaitGroup
	begun.Go(func() { _ = h.driver.SetPassword(waiting, h.want) }) // it fails, now or when the store is back
	defer func() {
		cancel()
		begun.Wait()
		h.s.store.state.Store(serves)
		h.keep()
	}()
	happens()
	h.configured()
}

// healthy waits until all nodes serve.
func (h *threeNodes) healthy() platform.Observed {
	h.t.Helper()
	var seen platform.Observed
	began := time.Now()
	await.True(h.t, "healthy nodes", func() bool {
		var err error
		seen, err = h.driver.Observe(h.t.Context(), h.want.ID)
		if err == nil && seen.Settled && seen.Healthy == h.want.Size && !h.seesKilled(seen) {
			return true
		}
		if time.Since(began) > 50*time.Second {
			h.t.Fatalf("not healthy: %+v, %v", seen, err)
		}
		return false
	})
	if took := time.Since(began); took > time.Second {
		h.t.Logf("healthy after %v", took.Round(time.Millisecond))
	}
	return seen
}

// underLoad does something to the cluster under load, waits until it is well
// again, and demands all acknowledged writes. most bounds the gap: not how fast
// this machine is, but that nobody waited for a time-out.
func (h *threeNodes) underLoad(most time.Duration, what func(seen platform.Observed)) (before, after platform.Observed) {
	h.t.Helper()
	before = h.healthy()
	h.load.begin(h.t)
	h.killed = map[int]bool{}
	what(before)
	await.True(h.t, "the driver to see what was done", func() bool {
		seen, err := h.driver.Observe(h.t.Context(), h.want.ID)
		return err == nil && !h.seesKilled(seen)
	})
	after = h.healthy()
	acknowledged, gap := h.load.end(h.t)
	h.agree(after)
	h.configured()
	h.t.Logf("%d writes acknowledged, longest gap %v, failovers %d: %s", acknowledged, gap.Round(time.Millisecond),
		after.Failovers-before.Failovers, after.FailoverReason)
	if gap > most {
		h.t.Errorf("nobody could write for %v", gap)
	}
	h.changesTold(before, after)
	return before, after
}

// changesTold demands that the last change of the primary is told as it was.
func (h *threeNodes) changesTold(before, after platform.Observed) {
	h.t.Helper()
	if after.Failovers != before.Failovers+1 {
		return
	}
	c := after.LastChange
	if c.From != before.Nodes[0].Ordinal || c.To != after.Nodes[0].Ordinal || c.Planned != strings.Contains(after.FailoverReason, "handed its role over") {
		h.t.Errorf("the change is told as %+v: %s", c, after.FailoverReason)
	}
	// Who finishes what another attempt began notes how long it took once all else is done.
	await.True(h.t, "it to be known how long the change took", func() bool {
		seen, err := h.driver.Observe(h.t.Context(), h.want.ID)
		c = seen.LastChange
		return err == nil && !c.Unfinished()
	})
	if c.Took <= 0 || c.Took > time.Minute {
		h.t.Errorf("it took %v", c.Took)
	}
	for _, n := range after.Nodes[1:] {
		if (n.LagBytes == nil) != (h.want.Engine != cluster.PostgreSQL) {
			h.t.Errorf("node %d lags %v bytes", n.Ordinal, n.LagBytes)
		}
	}
}

// agree waits until every node has the rows that the primary has: one that has
// silently gone another way never will. The primary is asked each time: a writer
// that was stopped may leave a row that is committed later.
func (h *threeNodes) agree(seen platform.Observed) {
	h.t.Helper()
	for _, n := range seen.Nodes {
		node := &load{engine: h.load.engine, customer: h.load.customer}
		node.at = netip.MustParseAddrPort(n.Address)
		await.True(h.t, fmt.Sprintf("node %d to have the rows of the primary", n.Ordinal), func() bool {
			want, errWant := h.load.keys(h.t.Context())
			got, err := node.keys(h.t.Context())
			return errWant == nil && err == nil && maps.Equal(got, want)
		})
	}
}

// seesKilled reports whether a process is still taken for alive that can't be: on a busy
// machine the end of one may be seen a moment before it is over.
func (h *threeNodes) seesKilled(seen platform.Observed) bool {
	return slices.ContainsFunc(seen.Nodes, func(n platform.Node) bool { return h.killed[n.Pid] })
}

func (h *threeNodes) node(seen platform.Observed, role cluster.Role) platform.Node {
	h.t.Helper()
	for _, n := range seen.Nodes {
		if n.Role == role {
			return n
		}
	}
	h.t.Fatalf("no %s: %+v", role, seen.Nodes)
	return platform.Node{}
}

func (h *threeNodes) signal(n platform.Node, sig syscall.Signal) {
	h.t.Helper()
	h.killed[n.Pid] = true
	if err := syscall.Kill(n.Pid, sig); err != nil {
		h.t.Fatalf("signal node %d: %v", n.Ordinal, err)
	}
}

func (h *threeNodes) data(ordinal int) string {
	return filepath.Join(h.s.o.DataDir, "clusters", fmt.Sprint(h.want.ID), fmt.Sprintf("node-%d", ordinal), "data")
}

// removeData removes the files of a running server, which may make others meanwhile.
func (h *threeNodes) removeData(n platform.Node) {
	h.t.Helper()
	if err := os.RemoveAll(h.data(n.Ordinal)); err != nil {
		h.t.Log(err)
	}
}

const quick, slow = 30 * time.Second, time.Minute

func (h *threeNodes) killsPrimary() { h.killsPrimaries(1) }

func (h *threeNodes) killsPrimaryAgain() {
	h.killsPrimaries(3) // so that one that was primary is again
}

func (h *threeNodes) killsPrimaries(times int) {
	h.t.Helper()
	for range times {
		before, after := h.underLoad(quick, func(seen platform.Observed) { h.signal(h.node(seen, cluster.Primary), syscall.SIGKILL) })
		if h.mode.replication == cluster.Asynch && h.want.Engine == cluster.MySQL {
			continue // starts again where it is
		}
		if after.Failovers != before.Failovers+1 || h.node(after, cluster.Primary).Ordinal == h.node(before, cluster.Primary).Ordinal {
			h.t.Errorf("nobody took over: %+v", after)
		}
	}
}

// stopsPrimary also lets the old primary go on afterwards: it must be gone.
func (h *threeNodes) stopsPrimary() {
	h.underLoad(quick, func(seen platform.Observed) {
		old := h.node(seen, cluster.Primary)
		h.signal(old, syscall.SIGSTOP)
		await.True(h.t, "the stopped server to be fenced", func() bool { return errors.Is(syscall.Kill(old.Pid, 0), syscall.ESRCH) })
	})
}

func (h *threeNodes) killsPrimaryWhileStoreFails() {
	h.healthy()
	h.withoutStore(fails, func() { h.killsPrimaries(1) })
}

func (h *threeNodes) killsPrimaryWhileStoreHangs() {
	h.healthy()
	h.withoutStore(hangs, func() { h.killsPrimaries(1) })
}

func (h *threeNodes) stopsPrimaryWhileStoreHangs() {
	h.healthy()
	h.withoutStore(hangs, h.stopsPrimary)
}

// killsPrimaryWhileNothingWorks has the first attempts at a failover come to nothing.
func (h *threeNodes) killsPrimaryWhileNothingWorks() {
	h.healthy()
	h.withoutStore(fails, func() {
		h.underLoad(slow, func(seen platform.Observed) {
			h.s.unreliable.failures.Store(3)
			h.signal(h.node(seen, cluster.Primary), syscall.SIGKILL)
		})
		if left := h.s.unreliable.failures.Load(); left > 0 {
			h.t.Errorf("%d failures weren't met", left)
		}
	})
}

func (h *threeNodes) killsReplica() {
	before, after := h.underLoad(quick, func(seen platform.Observed) { h.signal(h.node(seen, cluster.Replica), syscall.SIGKILL) })
	if after.Failovers != before.Failovers {
		h.t.Errorf("a failover for a replica: %s", after.FailoverReason)
	}
}

func (h *threeNodes) removesReplica() {
	before, after := h.underLoad(quick, func(seen platform.Observed) {
		n := h.node(seen, cluster.Replica)
		h.removeData(n)
		h.killed[n.Pid] = true
		if err := syscall.Kill(n.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // MySQL ends by itself
			h.t.Fatal(err)
		}
	})
	if after.Failovers != before.Failovers {
		h.t.Errorf("a failover for a replica: %s", after.FailoverReason)
	}
}

func (h *threeNodes) killsTwo() {
	h.underLoad(slow, func(seen platform.Observed) {
		h.signal(h.node(seen, cluster.Replica), syscall.SIGKILL)
		h.signal(h.node(seen, cluster.Primary), syscall.SIGKILL)
	})
}

func (h *threeNodes) killsAll() {
	h.underLoad(slow, func(seen platform.Observed) {
		for _, n := range seen.Nodes {
			h.signal(n, syscall.SIGKILL)
		}
	})
}

// killsBehind has the replicas acknowledge what they can't apply, as somebody reads there
// with a lock. Started again they have thrown it away, whatever they say of how far they
// are: only the primary's files have it, whose server hangs.
func (h *threeNodes) killsBehind() {
	slowSource := &unreliableEngine{Driver: engines()[h.want.Engine]}
	whole := h.s.o.Engines
	defer func() {
		h.close()
		h.s.o.Engines = whole
		h.open()
	}()
	h.close()
	h.s.o.Engines = maps.Clone(whole)
	h.s.o.Engines[h.want.Engine] = slowSource
	h.open()
	h.underLoad(slow, func(seen platform.Observed) {
		for _, n := range seen.Nodes {
			if n.Role == cluster.Replica {
				h.lockWritten(n)
			}
		}
		h.load.acknowledges(h.t, 20)
		slowSource.unfollowed.Store(true)
		h.signal(h.node(seen, cluster.Primary), syscall.SIGSTOP)
		for _, n := range seen.Nodes {
			if n.Role == cluster.Replica {
				h.signal(n, syscall.SIGKILL)
			}
		}
		await.True(h.t, "the primary that hangs to be fenced", func() bool {
			return errors.Is(syscall.Kill(h.node(seen, cluster.Primary).Pid, 0), syscall.ESRCH)
		})
		slowSource.unfollowed.Store(false)
	})
}

// lockWritten keeps a node from applying what it receives, until the server or the test ends.
func (h *threeNodes) lockWritten(n platform.Node) {
	h.t.Helper()
	reader := &load{engine: h.load.engine, customer: h.load.customer}
	reader.at = netip.MustParseAddrPort(n.Address)
	conn, err := reader.connect(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(conn.close)
	if err := conn.exec(h.t.Context(), "LOCK TABLES written READ"); err != nil {
		h.t.Fatal(err)
	}
}

func (h *threeNodes) killsWhileDown() {
	h.underLoad(slow, func(seen platform.Observed) {
		h.close()
		h.signal(h.node(seen, cluster.Primary), syscall.SIGKILL)
		h.open()
	})
}

func (h *threeNodes) removesPrimary() {
	defer h.mayLose()()
	before, after := h.underLoad(slow, func(seen platform.Observed) {
		n := h.node(seen, cluster.Primary)
		h.removeData(n)
		await.True(h.t, "another primary", func() bool {
			now, err := h.driver.Observe(h.t.Context(), h.want.ID)
			return err == nil && now.Failovers > seen.Failovers
		})
	})
	if after.Failovers != before.Failovers+1 {
		h.t.Errorf("failovers: %d, then %d", before.Failovers, after.Failovers)
	}
}

// damagesPrimary leaves files that can neither be started nor drained.
func (h *threeNodes) damagesPrimary() {
	defer h.mayLose()()
	before, after := h.underLoad(slow, func(seen platform.Observed) {
		h.close()
		n := h.node(seen, cluster.Primary)
		h.signal(n, syscall.SIGKILL)
		await.True(h.t, "the primary's end", func() bool { return errors.Is(syscall.Kill(n.Pid, 0), syscall.ESRCH) })
		control, err := os.OpenFile(filepath.Join(h.data(n.Ordinal), engines()[h.want.Engine].ControlFile()), os.O_WRONLY, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		defer control.Close()
		if _, err := control.Write(make([]byte, 1<<16)); err != nil {
			h.t.Fatal(err)
		}
		h.open()
	})
	if after.Failovers != before.Failovers+1 {
		h.t.Errorf("failovers: %d, then %d", before.Failovers, after.Failovers)
	}
}

// mayLose lets the load miss what a dead asynchronous primary alone had; people
// are told of it.
func (h *threeNodes) mayLose() (end func()) {
	h.load.mayLose = h.mode.replication != cluster.SemiSynch && h.mode.commit != cluster.CommitOn
	return func() { h.load.mayLose = false }
}

// resizes restarts every server, one after the other.
func (h *threeNodes) resizes() {
	bigger := h.want
	bigger.Plan.MemoryMB *= 2
	before, after := h.underLoad(quick, func(seen platform.Observed) {
		h.close()
		h.want = bigger
		h.open()
		await.True(h.t, "the bigger plan", func() bool {
			now, err := h.driver.Apply(h.t.Context(), h.want)
			return err == nil && now.Settled
		})
	})
	for _, n := range after.Nodes {
		for _, o := range before.Nodes {
			if n.Pid == o.Pid {
				h.t.Errorf("node %d wasn't restarted", n.Ordinal)
			}
		}
	}
}

// patches moves every node to a newer build.
func (h *threeNodes) patches() {
	if h.newer == "" {
		h.t.Skip("there is one build only")
	}
	_, after := h.underLoad(quick, func(platform.Observed) {
		h.close()
		h.want.Patch = true
		h.open()
		await.True(h.t, "the newer build", func() bool {
			now, err := h.driver.Observe(h.t.Context(), h.want.ID)
			return err == nil && now.Installation == h.newer && now.Settled
		})
	})
	for _, n := range after.Nodes {
		if _, version, _, _ := build.Parse(h.newer); n.Version != version {
			h.t.Errorf("node %d runs %s, want %s", n.Ordinal, n.Version, version)
		}
	}
}

// load are customers who write, and remember what was acknowledged.
type load struct {
	customer
	engine  cluster.Engine
	rounds  int
	stop    context.CancelFunc
	writing sync.WaitGroup
	mayLose bool

	mu   sync.Mutex
	acks []ack
	// refused is why the last write failed.
	refused error
}

type ack struct {
	key int64
	at  time.Time
}

const (
	writers = 4
	// think is for how long each waits between two writes.
	think = 25 * time.Millisecond
)

func newLoad(t *testing.T, s *site, c cluster.Cluster) *load {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.secrets.Text(c.ID, platform.CACert)))
	l := &load{engine: c.Engine, customer: customer{
		at:     netip.AddrPortFrom(s.o.PrimaryAddress, uint16(c.Port)),
		dialer: &net.Dialer{Timeout: 20 * time.Second},
		secure: &tls.Config{RootCAs: roots, ServerName: s.o.PrimaryAddress.String()}, password: s.secrets.Text(c.ID, platform.RootPassword),
	}}
	conn, err := l.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	if err := conn.exec(t.Context(), "CREATE TABLE written (k bigint PRIMARY KEY, padding varchar(100))"); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *load) begin(t *testing.T) {
	t.Helper()
	l.rounds++
	l.acks = nil
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	t.Cleanup(func() { // a test that fails midway mustn't leave the next one its writers
		cancel()
		l.writing.Wait()
	})
	for w := range writers {
		l.writing.Go(func() { l.write(ctx, int64(l.rounds)<<40|int64(w)<<32) })
	}
	l.acknowledges(t, 50)
}

// acknowledges waits for that many more writes.
func (l *load) acknowledges(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acks)
	}
	first := count()
	defer func() {
		if now := count(); now < first+n {
			t.Logf("%d of %d writes; the last refusal: %v", now-first, n, l.lastRefusal())
		}
	}()
	await.True(t, "writes", func() bool { return count() >= first+n })
}

func (l *load) lastRefusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

func (l *load) refuse(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err)
}

func (l *load) write(ctx context.Context, key int64) {
	for ctx.Err() == nil {
		conn, err := l.connect(ctx)
		if err != nil {
			l.refuse(fmt.Errorf("connect: %w", err))
			time.Sleep(50 * time.Millisecond) // a login costs both sides most of what the test takes
			continue
		}
		for ctx.Err() == nil {
			key++
			short, cancel := context.WithTimeout(ctx, 15*time.Second)
			err := conn.exec(short, fmt.Sprintf("INSERT INTO written VALUES (%d, 'something to be kept')", key))
			cancel()
			if err != nil {
				l.refuse(fmt.Errorf("write: %w", err))
				break
			}
			l.mu.Lock()
			l.acks = append(l.acks, ack{key, time.Now()})
			l.mu.Unlock()
			time.Sleep(think) // else they take the processor from whom the test waits for
		}
		conn.close()
	}
}

// end stops the writers and compares what is there with what was acknowledged.
func (l *load) end(t *testing.T) (acknowledged int, gap time.Duration) {
	t.Helper()
	l.acknowledges(t, 50)
	l.stop()
	l.writing.Wait()
	there, err := l.keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	for i, a := range l.acks {
		if !there[a.key] {
			lost++
		}
		if i > 0 {
			gap = max(gap, a.at.Sub(l.acks[i-1].at))
		}
	}
	if lost > 0 && l.mayLose {
		t.Logf("%d of %d acknowledged writes are lost, which asynchronous replication can't help", lost, len(l.acks))
	} else if lost > 0 {
		t.Errorf("%d of %d acknowledged writes are lost", lost, len(l.acks))
	}
	return len(l.acks), gap
}

func (l *load) keys(ctx context.Context) (map[int64]bool, error) {
	conn, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	list, err := conn.numbers(ctx, "SELECT k FROM written")
	keys := make(map[int64]bool, len(list))
	for _, k := range list {
		keys[k] = true
	}
	return keys, err
}

// customerConn is a customer's connection to either engine.
type customerConn interface {
	exec(ctx context.Context, statement string) error
	numbers(ctx context.Context, query string) ([]int64, error)
	close()
}

func (l *load) connect(ctx context.Context) (customerConn, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if l.engine == cluster.PostgreSQL {
		config, err := pgx.ParseConfig("")
		if err != nil {
			return nil, err
		}
		config.Host, config.Port, config.User, config.Password, config.Database = l.at.Addr().String(), l.at.Port(), "dbadmin", l.password, "defaultdb"
		config.TLSConfig, config.Fallbacks, config.DialFunc = l.secure, nil, l.dialer.DialContext
		conn, err := pgx.ConnectConfig(ctx, config)
		return pgConn{conn}, err
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.User, config.Passwd, config.DBName, config.TLS = "tcp", l.at.String(), "dbadmin", l.password, "defaultdb", l.secure
	config.DialFunc, config.Logger = l.dialer.DialContext, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, err
	}
	return myConn{db, conn}, nil
}

type pgConn struct{ *pgx.Conn }

func (c pgConn) close() { c.Close(context.Background()) }

func (c pgConn) exec(ctx context.Context, statement string) error {
	_, err := c.Exec(ctx, statement)
	return err
}

func (c pgConn) numbers(ctx context.Context, query string) ([]int64, error) {
	rows, err := c.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

type myConn struct {
	db *sql.DB
	*sql.Conn
}

func (c myConn) close() {
	c.Conn.Close()
	c.db.Close()
}

func (c myConn) exec(ctx context.Context, statement string) error {
	_, err := c.ExecContext(ctx, statement)
	return err
}

func (c myConn) numbers(ctx context.Context, query string) ([]int64, error) {
	rows, err := c.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []int64
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, rows.Err()
}
