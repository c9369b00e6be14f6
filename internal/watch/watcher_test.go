package watch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/probe"
	"steward/internal/store"
	"steward/internal/watch"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is a store with an account, and what watches its services.
type bench struct {
	t      *testing.T
	store  *store.Store
	owner  account.ID
	prober watch.Prober
}

func newBench(t *testing.T) *bench {
	s := pgtest.Store(t)
	var owner account.ID
	if err := s.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&owner); err != nil {
		t.Fatal(err)
	}
	networks := &monitor.Networks{Regions: map[string][]netip.Prefix{"local": monitor.LocalNetworks()}}
	return &bench{t: t, store: s, owner: owner, prober: probe.New(probe.Options{Networks: networks, UserAgent: "steward/test"})}
}

func (b *bench) watcher(change ...func(*watch.Options)) *watch.Watcher {
	o := watch.Options{
		Store: b.store, Prober: b.prober, Issues: outage.IssueTracker{}, Logger: pgtest.Logger(b.t),
		Interval: time.Second, Rules: monitor.DefaultRules(),
	}
	o.Rules.Confirm = 100 * time.Millisecond
	for _, c := range change {
		c(&o)
	}
	return watch.New(o)
}

// run has a watcher run; what it returns stops it, once.
func (b *bench) run(w *watch.Watcher) (stop func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) service(s monitor.Service) monitor.Service {
	b.t.Helper()
	s.Account, s.Status, s.Region = b.owner, monitor.Pending, "local"
	if s.Timeout == 0 {
		s.Timeout = 5
	}
	if s.Label == "" {
		s.Label = "service"
	}
	b.inTx(func(tx *store.Tx) (err error) { s, err = tx.CreateService(b.t.Context(), s); return err })
	return s
}

func (b *bench) inTx(do func(*store.Tx) error) {
	b.t.Helper()
	if err := b.store.InTx(b.t.Context(), do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) status(s monitor.Service) monitor.Status {
	b.t.Helper()
	now, err := b.store.Service(b.t.Context(), b.owner, s.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	return now.Status
}

func (b *bench) becomes(s monitor.Service, want monitor.Status) {
	b.t.Helper()
	await.True(b.t, fmt.Sprintf("service %d becomes %s", s.ID, want), func() bool { return b.status(s) == want })
}

func (b *bench) issues() []monitor.Issue {
	b.t.Helper()
	found, _, err := b.store.Issues(b.t.Context(), b.owner, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	return found
}

func (b *bench) timeline(i monitor.Issue) string {
	b.t.Helper()
	replies, _, err := b.store.Replies(b.t.Context(), b.owner, i.Ticket.ID, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	kinds := make([]string, len(replies))
	for n, r := range replies {
		kinds[n] = string(r.Kind)
	}
	return strings.Join(kinds, " ")
}

// web is a server that can be broken.
type web struct {
	*httptest.Server
	broken atomic.Bool
	asked  atomic.Int64
}

func newWeb(t *testing.T) *web {
	w := &web{}
	w.Server = httptest.NewServer(http.HandlerFunc(func(r http.ResponseWriter, _ *http.Request) {
		w.asked.Add(1)
		if w.broken.Load() {
			r.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(w.Close)
	return w
}

// TestOutage: a service is found up, down and up again, with one issue for both
// of those that fail on the same host.
func TestOutage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := newWeb(t)
	one := b.service(monitor.Service{Label: "front page", Type: monitor.URL, Address: server.URL})
	two := b.service(monitor.Service{Label: "log-in", Type: monitor.URL, Address: server.URL + "/login"})
	well := b.service(monitor.Service{Type: monitor.TCP, Address: server.Listener.Addr().String()})
	b.run(b.watcher())
	b.becomes(one, monitor.Up)
	b.becomes(two, monitor.Up)
	b.becomes(well, monitor.Up)

	server.broken.Store(true)
	b.becomes(one, monitor.Down)
	b.becomes(two, monitor.Down)
	issues := b.issues()
	if len(issues) != 1 || len(issues[0].Services) != 2 || issues[0].Closed != nil || !issues[0].Ticket.Open {
		t.Fatalf("issues: %+v", issues)
	}
	server.broken.Store(false)
	b.becomes(one, monitor.Up)
	b.becomes(two, monitor.Up)
	await.True(t, "the issue is closed", func() bool { issues = b.issues(); return issues[0].Closed != nil && !issues[0].Ticket.Open })
	if got := b.timeline(issues[0]); got != "opened joined recovered recovered closed" {
		t.Errorf("timeline: %s", got)
	}
	if b.status(well) != monitor.Up {
		t.Error("the port was open all the time")
	}
	await.True(t, "the history tells of both", func() bool {
		samples, err := b.store.Samples(t.Context(), one.ID, time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		classes := map[monitor.Class]int{}
		for _, s := range samples {
			classes[s.Class]++
		}
		return classes[monitor.OK] >= 4 && classes[monitor.BadStatus] >= 3
	})
}

// TestCertificate: when a certificate ends is known after the first check.
func TestCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	s := b.service(monitor.Service{Type: monitor.URL, Address: server.URL})
	b.run(b.watcher())
	b.becomes(s, monitor.Down) // by an authority that nobody knows
	await.True(t, "the end of the certificate is recorded", func() bool {
		now, err := b.store.Service(t.Context(), b.owner, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		return now.CertificateEnds != nil && now.CertificateEnds.Equal(server.Certificate().NotAfter)
	})
}

// TestChanges: what is disabled is left alone, what is changed is looked at anew.
func TestChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := newWeb(t)
	s := b.service(monitor.Service{Type: monitor.URL, Address: server.URL})
	b.run(b.watcher())
	b.becomes(s, monitor.Up)
	set := func(change func(*monitor.Service)) {
		b.inTx(func(tx *store.Tx) error {
			now, err := tx.ServiceForUpdate(t.Context(), b.owner, s.ID)
			if err != nil {
				return err
			}
			change(&now)
			_, err = tx.UpdateService(t.Context(), now)
			return err
		})
	}
	set(func(s *monitor.Service) { s.Body, s.Status = "welcome", monitor.Pending })
	b.becomes(s, monitor.Down)
	set(func(s *monitor.Service) { s.Status = monitor.Disabled })
	quiet, since := int64(-1), time.Now()
	await.True(t, "nobody asks for what is disabled", func() bool {
		if asked := server.asked.Load(); asked != quiet {
			quiet, since = asked, time.Now()
		}
		return time.Since(since) > 3*time.Second // three intervals
	})
	if b.status(s) != monitor.Disabled {
		t.Errorf("a disabled service is %s", b.status(s))
	}
	set(func(s *monitor.Service) { s.Body, s.Status = "", monitor.Pending })
	b.becomes(s, monitor.Up)
	b.inTx(func(tx *store.Tx) error {
		if _, err := tx.ServiceForUpdate(t.Context(), b.owner, s.ID); err != nil {
			return err
		}
		return tx.DeleteService(t.Context(), s.ID)
	})
	await.True(t, "nobody asks for what is deleted", func() bool {
		if asked := server.asked.Load(); asked != quiet {
			quiet, since = asked, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
}

// TestSharing: three servers check each service once an interval between them;
// when one leaves and another is cut off, the third goes on with what was theirs.
func TestSharing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var mu sync.Mutex
	looks := map[string][]time.Time{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		looks[r.URL.Path] = append(looks[r.URL.Path], time.Now())
	}))
	t.Cleanup(server.Close)
	const services = 60
	var all []monitor.Service
	for n := range services {
		all = append(all, b.service(monitor.Service{Type: monitor.URL, Address: fmt.Sprintf("%s/%d", server.URL, n), Interval: 4}))
	}
	own := pgtest.Open(t, store.Options{URL: b.store.Pool().Config().ConnString()})
	cut := b.watcher(func(o *watch.Options) { o.Store = own })
	leaving := b.watcher()
	stay := b.watcher()
	stopLeaving := b.run(leaving)
	b.run(cut)
	b.run(stay)
	for _, s := range all {
		b.becomes(s, monitor.Up)
	}
	await.True(t, "each has a third", func() bool {
		third := func(w *watch.Watcher) bool { n := w.Stats().Shards; return n >= 84 && n <= 86 }
		return third(cut) && third(leaving) && third(stay)
	})
	settled := time.Now()
	await.True(t, "two intervals", func() bool { return time.Since(settled) > 9*time.Second })
	cutAt := time.Now()
	own.Close() // it can't reach the store any more
	stopLeaving()
	await.True(t, "the last has all", func() bool { return stay.Stats().Shards == monitor.Shards })
	alone := time.Now()
	await.True(t, "two more", func() bool { return time.Since(alone) > 9*time.Second })
	mu.Lock()
	defer mu.Unlock()
	doubled := 0
	for path, times := range looks {
		for i := 1; i < len(times); i++ {
			if times[i-1].Before(settled) {
				continue
			}
			// Four seconds, three for the others to be sure, one to look, one to be spared.
			if gap := times[i].Sub(times[i-1]); gap > 9*time.Second {
				t.Errorf("%s was not looked at for %v", path, gap)
			} else if gap < 3*time.Second && times[i].Before(cutAt) {
				doubled++ // afterwards: who takes over can't know of the last looks of the one that was cut off
			}
		}
	}
	if doubled > 0 {
		t.Errorf("%d looks came too early", doubled)
	}
}

// TestFencing: what a server found before others took over is not taken any more.
func TestFencing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := newWeb(t)
	s := b.service(monitor.Service{Type: monitor.URL, Address: server.URL})
	b.run(b.watcher())
	b.becomes(s, monitor.Up)
	share, err := b.store.Share(t.Context(), store.Watcher{ID: "late", Alive: time.Second}, time.Now())
	if err != nil || len(share.Held) != 0 {
		t.Fatalf("shards were taken from a server that lives: %v, %v", share.Held, err)
	}
	b.inTx(func(tx *store.Tx) error {
		mine, err := tx.StillHeld(t.Context(), store.Watcher{ID: "late"}, map[int]int64{s.ID.Shard(): 1})
		if len(mine) != 0 {
			t.Errorf("a server that has no shard holds %v", mine)
		}
		return err
	})
}

// TestCanaries: while this server can't reach the world, nothing is anybody's fault.
func TestCanaries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server, canary := newWeb(t), newWeb(t)
	s := b.service(monitor.Service{Type: monitor.URL, Address: server.URL})
	target, err := monitor.ParseAddress(monitor.URL, canary.URL)
	if err != nil {
		t.Fatal(err)
	}
	w := b.watcher(func(o *watch.Options) {
		o.Canaries = []probe.Target{{Address: target, Timeout: time.Second, Region: "local"}}
	})
	b.run(w)
	b.becomes(s, monitor.Up)
	canary.broken.Store(true)
	server.broken.Store(true)
	before := w.Stats().Inconclusive
	await.True(t, "three looks that say nothing", func() bool { return w.Stats().Inconclusive >= before+3 })
	if got := b.status(s); got != monitor.Up {
		t.Errorf("the service is %s", got)
	}
	canary.broken.Store(false)
	b.becomes(s, monitor.Down)
}

// TestStoreAway: checks go on while the store can't be reached, and what they
// found is recorded afterwards with its true time.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := newWeb(t)
	s := b.service(monitor.Service{Type: monitor.URL, Address: server.URL})
	w := b.watcher()
	b.run(w)
	b.becomes(s, monitor.Up)
	lock, err := b.store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Rollback(context.Background())
	// Nobody can write or read a thing of the monitor's.
	if _, err := lock.Exec(t.Context(), "LOCK TABLE shards, watchers, services IN ACCESS EXCLUSIVE MODE"); err != nil {
		t.Fatal(err)
	}
	asked := server.asked.Load()
	server.broken.Store(true)
	broken := time.Now()
	await.True(t, "checks go on well after the lease", func() bool { return server.asked.Load() > asked+6 && time.Since(broken) > 4*time.Second })
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.becomes(s, monitor.Down)
	now, err := b.store.Service(t.Context(), b.owner, s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if late := now.Since.Sub(broken); late > 4*time.Second { // as one would be that was seen once the store was back
		t.Errorf("it is down since %v after it broke", late)
	}
}

// TestAskedCheck: a check that somebody asks for is made within seconds, once, however long the interval is.
func TestAskedCheck(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := newWeb(t)
	s := b.service(monitor.Service{Type: monitor.URL, Address: server.URL, Interval: 86400})
	b.run(b.watcher())
	b.becomes(s, monitor.Up)
	before := server.asked.Load()
	begun := time.Now()
	b.inTx(func(tx *store.Tx) error {
		if _, err := tx.ServiceForUpdate(t.Context(), b.owner, s.ID); err != nil {
			return err
		}
		_, err := tx.AskCheck(t.Context(), s.ID, time.Now())
		return err
	})
	await.True(t, "it is checked", func() bool { return server.asked.Load() == before+1 })
	t.Logf("checked after %s", time.Since(begun).Round(time.Millisecond))
	b.inTx(func(tx *store.Tx) error { // another change of the shard isn't another question
		_, err := tx.ServiceForUpdate(t.Context(), b.owner, s.ID)
		return err
	})
	later := b.service(monitor.Service{Type: monitor.URL, Address: newWeb(t).URL, Interval: 86400})
	b.becomes(later, monitor.Up) // the change was seen before
	if n := server.asked.Load(); n != before+1 {
		t.Errorf("checked %d times", n-before)
	}
}
