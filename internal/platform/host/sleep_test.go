package host_test

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/platform"
	"steward/internal/platform/host"
	"steward/internal/platform/platformtest"
	"steward/internal/process"
	"steward/internal/testnet"
)

// autoSuspended is a cluster that may sleep, with a clock that the test moves.
type autoSuspended struct {
	t     *testing.T
	s     *site
	d     *host.Driver
	want  platform.Wanted
	ahead *atomic.Int64
}

// idleMinutes is after how long it falls asleep.
const idleMinutes = 60

// newAutoSuspended makes one of some nodes, which serves.
func newAutoSuspended(t *testing.T, flavour engine.Flavour, size int) *autoSuspended {
	t.Helper()
	return newAutoSuspendedOf(t, distributionOf(t, flavour), func(want *platform.Wanted) { want.Size = size })
}

// newAutoSuspendedOf makes one that wants what is changed.
func newAutoSuspendedOf(t *testing.T, found []engine.Installation, change func(want *platform.Wanted)) *autoSuspended {
	t.Helper()
	testnet.Need(t)
	s := newSiteWith(t, found, true)
	b := &autoSuspended{t: t, s: s, ahead: &atomic.Int64{}}
	s.o.Now = func() time.Time { return time.Now().Add(time.Duration(b.ahead.Load())) }
	// The kernel goes through its whole table at each look.
	s.o.LookAtSessions = 250 * time.Millisecond
	b.d = s.started(t)
	b.want = s.wanted(t, 1)
	inst := s.o.Installations[0]
	b.want.Engine, b.want.Series = inst.Family(), inst.Series
	if inst.Family() == cluster.MySQL {
		b.want.Commit = ""
	}
	b.want.AutoSuspend, b.want.AllowList = idleMinutes, cluster.AllowList{"127.0.0.0/24"}
	if change(&b.want); b.want.Size > 1 {
		b.want.Replication = cluster.Asynch
	}
	seen := b.settle()
	b.want.Hosts = seen.Hosts
	return b
}

// settle applies what is wanted until that is what is seen.
func (b *autoSuspended) settle() platform.Observed {
	b.t.Helper()
	var seen platform.Observed
	var err error
	await.True(b.t, "a settled database", func() bool {
		seen, err = b.d.Apply(b.t.Context(), b.want)
		if err != nil {
			b.t.Log(err)
		}
		return err == nil && seen.Settled
	})
	return seen
}

// breakData takes away what no server starts without, or brings it back.
func (b *autoSuspended) breakData(away bool) {
	b.t.Helper()
	from := filepath.Join(b.s.node(b.want.ID), "data", "PG_VERSION")
	to := from + "-away"
	if !away {
		from, to = to, from
	}
	if err := os.Rename(from, to); err != nil {
		b.t.Fatal(err)
	}
}

func (b *autoSuspended) observe() platform.Observed {
	b.t.Helper()
	seen, err := b.d.Observe(b.t.Context(), b.want.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return seen
}

// later moves the clock.
func (b *autoSuspended) later(d time.Duration) { b.ahead.Add(int64(d)) }

// connect does what a customer does.
func (b *autoSuspended) connect(from string) error {
	return b.s.login(b.t.Context(), b.want.Cluster, netip.MustParseAddr(from), b.s.secrets.Text(b.want.ID, platform.RootPassword))
}

func (b *autoSuspended) mustConnect() {
	b.t.Helper()
	if err := b.connect("127.0.0.9"); err != nil {
		b.t.Fatal(err)
	}
}

// fallAsleep lets the time pass until the cluster sleeps, and demands that nothing of it runs.
func (b *autoSuspended) fallAsleep() {
	b.t.Helper()
	// First it must be seen that the last session is over.
	await.True(b.t, "the database to fall asleep", func() bool {
		b.later(idleMinutes * time.Minute)
		return b.asleep()
	})
	b.mustSleep()
}

// asleep reports whether it sleeps, and all of its processes have ended.
func (b *autoSuspended) asleep() bool {
	seen := b.observe()
	return !seen.SleepingSince.IsZero() && seen.Settled
}

func (b *autoSuspended) mustSleep() {
	b.t.Helper()
	seen := b.observe()
	if seen.SleepingSince.IsZero() || !seen.Serving || !seen.Settled || seen.Degraded || seen.Problem != "" || seen.Healthy != b.want.Size {
		b.t.Errorf("asleep: %+v", seen)
	}
	for _, pid := range b.processes() {
		b.t.Errorf("process %d runs", pid)
	}
}

// processes are all of the cluster's.
func (b *autoSuspended) processes() (pids []int) {
	b.t.Helper()
	marked, err := process.Marked(host.ScopeOf(b.s.o.DataDir) + "/")
	if err != nil {
		b.t.Fatal(err)
	}
	for _, list := range marked {
		pids = append(pids, list...)
	}
	return pids
}

// mustBeAwake demands that it serves.
func (b *autoSuspended) mustBeAwake() platform.Observed {
	b.t.Helper()
	var seen platform.Observed
	await.True(b.t, "an awake database", func() bool {
		seen = b.observe()
		return seen.SleepingSince.IsZero() && seen.Serving && !seen.Degraded && seen.Settled
	})
	return seen
}

func onBothFamilies(t *testing.T, what func(t *testing.T, flavour engine.Flavour)) {
	t.Helper()
	onEach(t, what, engine.FlavourPostgreSQL, engine.FlavourMariaDB)
}

func onEach(t *testing.T, what func(t *testing.T, flavour engine.Flavour), flavours ...engine.Flavour) {
	t.Helper()
	t.Parallel()
	for _, flavour := range flavours {
		t.Run(string(flavour), func(t *testing.T) {
			t.Parallel()
			what(t, flavour)
		})
	}
}

// TestSleep: a database that nobody uses takes no memory, and who connects notices
// a slow connect.
func TestSleep(t *testing.T) {
	onBothFamilies(t, func(t *testing.T, flavour engine.Flavour) {
		b := newAutoSuspended(t, flavour, 1)
		if b.asleep() {
			t.Fatal("it sleeps at once")
		}
		b.mustConnect()
		b.fallAsleep()
		if b.settle(); !b.asleep() {
			t.Error("looking after it woke it")
		}
		before := b.d.SleepStats()
		began := time.Now()
		b.mustConnect()
		t.Logf("connected after %v", time.Since(began))
		seen := b.mustBeAwake()
		if seen.WokenFor != "somebody who connected" || seen.Nodes[0].Restarts != 0 {
			t.Errorf("%+v", seen)
		}
		if now := b.d.SleepStats(); before.Sleeping != 1 || now.Sleeping != 0 || now.Wakes != before.Wakes+1 || now.WakesInVain != 0 {
			t.Errorf("%+v, then %+v", before, now)
		}

		// A strike of connections wakes it once.
		b.fallAsleep()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := b.connect("127.0.0.9"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if now := b.d.SleepStats(); now.Wakes != before.Wakes+2 {
			t.Errorf("woken %d times", now.Wakes-before.Wakes-1)
		}

		// Whom the list doesn't name wakes nothing, before and after it changes.
		b.fallAsleep()
		b.want.AllowList = cluster.AllowList{"127.0.0.10"}
		if b.settle(); !b.asleep() {
			t.Error("another list woke it")
		}
		for _, stranger := range []string{"127.0.1.9", "127.0.0.9"} {
			if err := b.connect(stranger); err == nil {
				t.Errorf("%s was let in", stranger)
			}
		}
		b.mustSleep()
		if err := b.connect("127.0.0.10"); err != nil {
			t.Error(err)
		}
		b.mustBeAwake()
	})
}

// TestAutoSuspended: what may befall a database that sleeps and wakes.
func TestAutoSuspended(t *testing.T) {
	t.Parallel()
	b := newAutoSuspended(t, engine.FlavourPostgreSQL, 1)
	for _, c := range []struct {
		name string
		do   func(*autoSuspended)
	}{
		{"what keeps it awake", (*autoSuspended).isKeptAwake},
		{"a new steward wakes it", (*autoSuspended).outlivesSteward},
		{"a wake that fails", (*autoSuspended).wakesInVain},
		{"nodes come and go while it sleeps", (*autoSuspended).getsAndLosesNodes},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			c.do(b)
		})
	}
}

// isKeptAwake: by sessions, however short.
func (b *autoSuspended) isKeptAwake() {
	t := b.t
	idle := open(t, netip.MustParseAddr("127.0.0.9"), netip.AddrPortFrom(b.s.o.PrimaryAddress, uint16(b.want.Port)).String(), 1)
	// Nothing may come of a look, so that there is no condition to wait for.
	looked := func() { time.Sleep(5 * b.s.o.LookAtSessions) }
	for range 3 {
		looked()
		b.later(idleMinutes * time.Minute)
	}
	looked()
	if b.asleep() {
		t.Error("it fell asleep under a session")
	}
	idle[0].Close()
	for range 5 {
		b.later(idleMinutes / 2 * time.Minute)
		b.mustConnect()
		looked()
		if b.asleep() {
			t.Fatal("it fell asleep though somebody came and went")
		}
	}
	b.fallAsleep()

	// Who doesn't want it to sleep any more has it awake.
	b.want.AutoSuspend = 0
	b.settle()
	b.mustBeAwake()
	b.later(10 * idleMinutes * time.Minute)
	looked()
	if b.asleep() {
		t.Error("it fell asleep though it shouldn't ever")
	}
	b.want.AutoSuspend = idleMinutes
	b.settle()
}

// outlivesSteward: what sleeps goes on doing so when steward comes anew, and wakes without its store.
func (b *autoSuspended) outlivesSteward() {
	b.fallAsleep()
	b.d.Close()
	b.d = b.s.started(b.s.t)
	b.mustSleep()
	b.settle()
	b.mustSleep()
	b.s.store.state.Store(hangs)
	defer b.s.store.state.Store(serves)
	b.mustConnect()
	if seen := b.observe(); !seen.SleepingSince.IsZero() || !seen.Serving {
		b.t.Errorf("%+v", seen)
	}
	b.fallAsleep()
}

// wakesInVain: who waits is told, and the database is down as any other that doesn't start.
func (b *autoSuspended) wakesInVain() {
	t := b.t
	b.fallAsleep()
	before := b.d.SleepStats().WakesInVain
	b.breakData(true)
	to := netip.AddrPortFrom(b.s.o.PrimaryAddress, uint16(b.want.Port)).String()
	for range 2 { // who comes afterwards waits no more
		told, err := io.ReadAll(open(t, netip.MustParseAddr("127.0.0.9"), to, 1)[0])
		if err != nil || !strings.Contains(string(told), "could not be started") {
			t.Errorf("told %q, %v", told, err)
		}
	}
	seen := b.observe()
	if !seen.SleepingSince.IsZero() || seen.Serving || seen.Problem == "" || b.d.SleepStats().WakesInVain != before+1 {
		t.Errorf("%+v", seen)
	}
	b.breakData(false)
	b.settle()
	b.mustConnect()
	b.fallAsleep()
	b.mustConnect()
}

// getsAndLosesNodes: they are made, and taken away.
func (b *autoSuspended) getsAndLosesNodes() {
	for _, size := range []int{3, 1} {
		b.fallAsleep()
		b.want.Size, b.want.Replication = size, cluster.Asynch
		if size == 1 {
			b.want.Replication = cluster.ReplicationNone
		}
		if seen := b.settle(); seen.Healthy != size || !seen.SleepingSince.IsZero() {
			b.t.Errorf("of %d nodes: %+v", size, seen)
		}
		b.mustConnect()
	}
	b.fallAsleep()
}

// TestAsleepAllWorks: what needs servers wakes them.
func TestAsleepAllWorks(t *testing.T) { onEach(t, asleepAllWorks, engine.FlavourPostgreSQL) }

func TestAsleepAllWorksThorough(t *testing.T) { onEach(t, asleepAllWorks, engine.FlavourMariaDB) }

func asleepAllWorks(t *testing.T, flavour engine.Flavour) {
	t.Helper()
	b := newAutoSuspended(t, flavour, 1)
	for _, c := range []struct {
		name string
		do   func() error
		why  string
	}{
		{"password", func() error {
			b.s.secrets.Set(b.want.ID, platform.RootPassword, "another-1A")
			return b.d.SetPassword(t.Context(), b.want)
		}, "its password"},
		{"backup", func() error {
			_, err := b.d.Backup(t.Context(), b.want, cluster.Primary, io.Discard)
			return err
		}, "a backup"},
		{"resize", func() error {
			b.want.Plan.MemoryMB *= 2
			b.settle()
			return nil
		}, "a change"},
		{"read only", func() error {
			return errors.Join(b.d.SetReadOnly(t.Context(), b.want, true), b.d.SetReadOnly(t.Context(), b.want, false))
		}, "its disk"},
	} {
		b.fallAsleep()
		if err := c.do(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if seen := b.mustBeAwake(); seen.WokenFor != c.why {
			t.Errorf("%s: woken for %q", c.name, seen.WokenFor)
		}
		b.mustConnect()
	}
	b.fallAsleep()
	awake := b.want
	b.want.Suspended = true
	if seen := b.settle(); !seen.Suspended || !seen.SleepingSince.IsZero() {
		t.Errorf("suspended: %+v", seen)
	}
	b.want = awake
	b.settle()
	b.mustConnect()
	b.fallAsleep()
	if err := b.d.Remove(t.Context(), b.want.Cluster); err != nil {
		t.Error(err)
	}
	if left := b.s.leftovers(t, b.want.ID, b.want.Port); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestThreeSleep: they sleep and wake together, and none forgets what it was.
func TestThreeSleep(t *testing.T) { onEach(t, threeSleep, engine.FlavourPostgreSQL) }

func TestThreeSleepThorough(t *testing.T) { onEach(t, threeSleep, engine.FlavourMariaDB) }

func threeSleep(t *testing.T, flavour engine.Flavour) {
	t.Helper()
	b := newAutoSuspended(t, flavour, 3)
	before := b.observe()
	for range 2 {
		b.fallAsleep()
		if b.settle(); !b.asleep() {
			t.Error("looking after it woke it")
		}
		time.Sleep(2 * time.Second) // a monitor that took it for dead would have begun to recover it
		b.mustSleep()
		began := time.Now()
		b.mustConnect()
		t.Logf("connected after %v", time.Since(began))
		seen := b.mustBeAwake()
		t.Logf("all nodes serve after %v", time.Since(began))
		if seen.Failovers != before.Failovers || seen.Nodes[0].Ordinal != before.Nodes[0].Ordinal || seen.Healthy != 3 {
			t.Errorf("%+v", seen)
		}
	}
}

// TestPatchWhileAsleep: one that has something to do wakes it, one that hasn't doesn't.
func TestPatchWhileAsleep(t *testing.T) {
	t.Parallel()
	found, _ := installations()
	all := benches(found)
	i := slices.IndexFunc(all, func(b platformtest.Bench) bool { return b.Older != "" && !b.Encrypted })
	if i < 0 {
		t.Fatal("there are no two builds of a series: run make engines-ci")
	}
	b := newAutoSuspendedOf(t, ofSeries(found, all[i]), func(want *platform.Wanted) { want.Installation = all[i].Older })
	b.fallAsleep()
	b.want.Patch = true
	if seen := b.settle(); seen.Installation != all[i].Newer || !seen.SleepingSince.IsZero() {
		t.Errorf("patched: %+v", seen)
	}
	b.want.Installation = all[i].Newer
	b.mustConnect()
	b.fallAsleep()
	if b.settle(); !b.asleep() {
		t.Error("a patch that had nothing to do woke it")
	}
	b.mustConnect()
}

// TestAsleepOverAReboot: it sleeps on, and wakes; encrypted data has its keys again.
func TestAsleepOverAReboot(t *testing.T) {
	t.Parallel()
	b := newAutoSuspendedOf(t, distributionOf(t, engine.FlavourMariaDB), func(want *platform.Wanted) { want.Encrypted = true })
	b.fallAsleep()
	b.d.Close()
	b.s.bench(platformtest.Bench{}).Reboot(t)
	b.d = b.s.started(t)
	b.mustSleep()
	b.mustConnect()
	b.mustBeAwake()
	b.fallAsleep()
	b.mustConnect()
}
