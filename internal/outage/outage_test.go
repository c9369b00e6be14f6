package outage_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is an account with two contacts, of which one is of the group web.
type bench struct {
	t      *testing.T
	store  *store.Store
	owner  account.ID
	issues outage.IssueTracker
	now    time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: pgtest.Store(t), issues: outage.IssueTracker{Channels: []string{"ops"}}, now: time.Now().Truncate(time.Second)}
	if err := b.store.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&b.owner); err != nil {
		t.Fatal(err)
	}
	for name, group := range map[string]string{"ann": "web", "bob": "mail"} {
		contact := monitor.Contact{Account: b.owner, Name: name, Email: name + "@example.org", Group: group}
		if _, err := b.store.CreateContact(t.Context(), contact); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) do(do func(tx *store.Tx) error) {
	b.t.Helper()
	if err := b.store.InTx(b.t.Context(), do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) service(label, group string) monitor.Service {
	b.t.Helper()
	s := monitor.Service{Account: b.owner, Label: label, Type: monitor.TCP, Address: "192.0.2.1:80", Timeout: 1, Group: group, Status: monitor.Up}
	b.do(func(tx *store.Tx) (err error) { s, err = tx.CreateService(b.t.Context(), s); return err })
	return s
}

// begin has a service fail at a host, which leads to the addresses.
func (b *bench) begin(s monitor.Service, host string, at time.Duration, addresses ...string) {
	b.t.Helper()
	found := monitor.Result{Started: b.now.Add(at), Class: monitor.Refused, Detail: "The connection was refused."}
	for _, a := range addresses {
		found.Addresses = append(found.Addresses, netip.MustParseAddr(a))
	}
	b.do(func(tx *store.Tx) error {
		s, err := tx.ServiceForUpdate(b.t.Context(), b.owner, s.ID)
		if err != nil {
			return err
		}
		s.Address, s.Status, s.Reason = host+":80", monitor.Down, found.Detail
		if s, err = tx.UpdateService(b.t.Context(), s); err != nil {
			return err
		}
		return b.issues.Begin(b.t.Context(), tx, s, found)
	})
}

func (b *bench) end(s monitor.Service, at time.Duration) {
	b.t.Helper()
	b.do(func(tx *store.Tx) error { return b.issues.End(b.t.Context(), tx, s, b.now.Add(at)) })
}

func (b *bench) unwatch(s monitor.Service, at time.Duration) {
	b.t.Helper()
	b.do(func(tx *store.Tx) error {
		return b.issues.Unwatch(b.t.Context(), tx, s, b.now.Add(at), "ann disabled it.")
	})
}

// state is all issues in a few words: their services, + for open; who was told of
// what, the services by their ids.
func (b *bench) state() string {
	b.t.Helper()
	issues, _, err := b.store.Issues(b.t.Context(), b.owner, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var lines []string
	for _, i := range issues {
		var line strings.Builder
		line.WriteString(fmt.Sprint(i.Services))
		if i.Closed == nil {
			line.WriteString("+")
		}
		told := map[string]string{}
		for _, n := range b.notices(i.ID) {
			who := (n.Recipient + n.Channel)[:3]
			if n.Kind == monitor.NoticeOpened && n.Service != 0 {
				told[who] += fmt.Sprint(n.Service)
			} else {
				told[who] += string(n.Kind)[:1]
			}
		}
		for _, who := range slices.Sorted(maps.Keys(told)) {
			line.WriteString(" " + who + ":" + told[who])
		}
		lines = append(lines, line.String())
	}
	return strings.Join(lines, "; ")
}

// notices are those of an issue, oldest first.
func (b *bench) notices(of monitor.IssueID) []monitor.Notice {
	b.t.Helper()
	found, err := b.store.Notices(b.t.Context(), store.NoticeQuery{Issue: of})
	if err != nil {
		b.t.Fatal(err)
	}
	slices.Reverse(found)
	return found
}

// subjects are those of all mails to somebody, oldest first.
func (b *bench) subjects(name string) []string {
	b.t.Helper()
	var subjects []string
	for _, n := range b.notices(0) {
		if strings.HasPrefix(n.Recipient+n.Channel, name) {
			subjects = append(subjects, n.Letter().Subject)
		}
	}
	return subjects
}

func (b *bench) timeline(of monitor.TicketID) []string {
	b.t.Helper()
	replies, _, err := b.store.Replies(b.t.Context(), b.owner, of, store.ListQuery{})
	if err != nil {
		b.t.Fatal(err)
	}
	var lines []string
	for _, r := range replies {
		lines = append(lines, string(r.Kind)+" "+r.Text)
	}
	return lines
}

func (b *bench) expect(when, want string) {
	b.t.Helper()
	if got := b.state(); got != want {
		b.t.Errorf("%s: %s, want %s", when, got, want)
	}
}

func (b *bench) same(what string, got []string, want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestIssues: services that fail together are one issue, and each contact is told
// once of each that is theirs, and once of the end.
func TestIssues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two, three := b.service("one", "web"), b.service("two", ""), b.service("three", "web")
	b.begin(one, "a.example", 0)
	b.expect("one fails", "[1]+ ann:1 ops:1")
	b.begin(one, "a.example", time.Second)
	b.expect("and again", "[1]+ ann:1 ops:1")
	b.begin(one, "c.example", time.Second)
	b.expect("and elsewhere, since it was changed", "[1]+ ann:1 ops:1")
	b.begin(two, "a.example", time.Minute)
	b.expect("two on the same host, whose group is everybody", "[1 2]+ ann:12 bob:2 ops:12")
	b.begin(three, "b.example", time.Minute)
	b.expect("three on another", "[1 2]+ ann:12 bob:2 ops:12; [3]+ ann:3 ops:3")
	b.end(one, 2*time.Minute)
	b.expect("one is well", "[1 2]+ ann:12 bob:2 ops:12; [3]+ ann:3 ops:3")
	b.begin(one, "a.example", 150*time.Second)
	b.end(two, 160*time.Second)
	b.expect("one fails again before the other is well", "[2 1]+ ann:12 bob:2 ops:12; [3]+ ann:3 ops:3")
	b.end(one, 3*time.Minute)
	b.end(one, 4*time.Minute)
	b.expect("all of a are well", "[2 1] ann:12r bob:2r ops:12r; [3]+ ann:3 ops:3")
	b.end(three, time.Second)
	b.expect("a clock that was set back ends it, too", "[2 1] ann:12r bob:2r ops:12r; [3] ann:3r ops:3r")
	b.begin(two, "a.example", time.Hour)
	b.expect("a new outage is a new issue", "[2 1] ann:12r bob:2r ops:12r; [3] ann:3r ops:3r; [2]+ ann:2 bob:2 ops:2")
	b.begin(one, "a.example", time.Hour+3*time.Minute)
	b.expect("one that fails later is another", "[2 1] ann:12r bob:2r ops:12r; [3] ann:3r ops:3r; [2]+ ann:2 bob:2 ops:2; [1]+ ann:1 ops:1")
}

// TestEachServiceIsTitledWithItsOwnName: a service that joins an issue has its own
// line in the ticket and its own mail, and the end names what is well again.
func TestEachServiceIsTitledWithItsOwnName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop, mail, stock := b.service("shop", "web"), b.service("mail", "mail"), b.service("stock", "web")
	b.begin(shop, "a.example", 0)
	b.begin(mail, "a.example", time.Second)
	b.begin(stock, "a.example", 2*time.Second)
	b.end(mail, time.Minute)
	b.end(shop, 2*time.Minute)
	b.end(stock, 3*time.Minute)
	b.same("ann", b.subjects("ann"), "Problem: shop: The connection was refused.", "Problem: stock: The connection was refused.", "Recovered: shop and stock after 3m0s")
	b.same("bob", b.subjects("bob"), "Problem: mail: The connection was refused.", "Recovered: mail after 59s")
	b.same("the channel", b.subjects("ops"), "Problem: shop: The connection was refused.", "Problem: mail: The connection was refused.",
		"Problem: stock: The connection was refused.", "Recovered: shop and 2 others after 3m0s")
	b.same("the ticket", b.timeline(1), "opened shop: The connection was refused.", "joined mail: The connection was refused.", "joined stock: The connection was refused.",
		"recovered mail: answers again.", "recovered shop: answers again.", "recovered stock: answers again.", "closed All is well again.")
}

// TestUnwatchedIsNotRecovered: of a service that was disabled or deleted while it
// failed nobody is told that it is well.
func TestUnwatchedIsNotRecovered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop, mail := b.service("shop", "web"), b.service("mail", "mail")
	b.begin(shop, "a.example", 0)
	b.unwatch(shop, time.Minute)
	b.unwatch(shop, 2*time.Minute)
	b.expect("the only one", "[1] ann:1u ops:1u")
	b.same("ann", b.subjects("ann"), "Problem: shop: The connection was refused.", "No longer watched: shop")
	b.same("the ticket", b.timeline(1), "opened shop: The connection was refused.", "unwatched shop: no longer watched: ann disabled it.", "closed No longer watched.")

	b.begin(shop, "a.example", time.Hour)
	b.begin(mail, "a.example", time.Hour)
	b.end(shop, time.Hour+time.Minute)
	b.unwatch(mail, time.Hour+2*time.Minute)
	b.expect("one of two", "[1] ann:1u ops:1u; [1 2] ann:1r bob:2u ops:12r")
	b.same("ann", b.subjects("ann")[2:], "Problem: shop: The connection was refused.", "Recovered: shop after 1m0s")
	b.same("bob", b.subjects("bob"), "Problem: mail: The connection was refused.", "No longer watched: mail")
	b.same("the channel", b.subjects("ops")[2:], "Problem: shop: The connection was refused.", "Problem: mail: The connection was refused.", "Recovered: shop after 1m0s")
	b.same("the ticket", b.timeline(2)[2:], "recovered shop: answers again.", "unwatched mail: no longer watched: ann disabled it.", "closed All that is still watched is well again.")
}

// TestNamesOfOneAddressAreOneHost: services share an issue when their hosts lead to
// the same address, whatever they are called.
func TestNamesOfOneAddressAreOneHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two, three, four, five := b.service("one", "web"), b.service("two", "web"), b.service("three", "web"), b.service("four", "web"), b.service("five", "web")
	b.begin(one, "localhost", 0, "127.0.0.1", "::1")
	b.begin(two, "127.0.0.1", time.Second, "127.0.0.1")
	b.begin(three, "ip6-loopback", time.Second, "::ffff:127.0.0.9", "::1")
	b.begin(four, "127.0.0.9", 2*time.Second, "127.0.0.9")
	b.begin(five, "127.0.0.8", 2*time.Second, "127.0.0.8")
	b.expect("names and addresses of one host", "[1 2 3 4]+ ann:1234 ops:1234; [5]+ ann:5 ops:5")
}

// TestNewcomersAreTold: whoever becomes a service's contact while it fails is told
// of it once, and of its end.
func TestNewcomersAreTold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop, mail := b.service("shop", "web"), b.service("mail", "mail")
	b.begin(shop, "a.example", 0)
	b.begin(mail, "a.example", time.Second)
	b.do(func(tx *store.Tx) error {
		return b.issues.Raise(t.Context(), tx, b.owner, outage.OfDisk(1), "orders", "it is full", b.now)
	})
	if _, err := b.store.CreateContact(t.Context(), monitor.Contact{Account: b.owner, Name: "cid", Email: "cid@example.org", Group: "mail"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		b.do(func(tx *store.Tx) error { return b.issues.TellNewcomers(t.Context(), tx, b.owner) })
	}
	b.expect("a contact of mail", "[1 2]+ ann:1 bob:2 cid:2 ops:12; []+ ann:o bob:o cid:o ops:o")
	b.end(shop, time.Minute)
	b.end(mail, time.Minute)
	b.same("cid", b.subjects("cid"), "Problem: mail: The connection was refused.", "Problem: orders: it is full", "Recovered: mail after 59s")
}

// TestCauses: a cause has one open issue; settling one settles those below it.
func TestCauses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	raise := func(c outage.Cause) {
		b.do(func(tx *store.Tx) error {
			return b.issues.Raise(t.Context(), tx, b.owner, c, "orders", "it is full", b.now)
		})
	}
	settle := func(c outage.Cause) {
		b.do(func(tx *store.Tx) error {
			return b.issues.Settle(t.Context(), tx, b.owner, c, "it is well", b.now.Add(time.Hour))
		})
	}
	raise(outage.OfDisk(1))
	raise(outage.OfDisk(1))
	raise(outage.OfBackup(1, 7))
	raise(outage.OfDisk(12))
	settle(outage.OfBackup(1, 70))
	b.expect("three causes", "[]+ ann:o bob:o ops:o; []+ ann:o bob:o ops:o; []+ ann:o bob:o ops:o")
	settle(outage.OfDisk(1))
	b.expect("there is space", "[] ann:or bob:or ops:or; []+ ann:o bob:o ops:o; []+ ann:o bob:o ops:o")
	b.do(func(tx *store.Tx) error {
		return b.issues.Drop(t.Context(), tx, b.owner, outage.OfDatabase(1), "The database was deleted.", b.now)
	})
	b.expect("database 1 is gone", "[] ann:or bob:or ops:or; [] ann:ou bob:ou ops:ou; []+ ann:o bob:o ops:o")
	b.same("its ticket", b.timeline(2), "opened orders: it is full", "unwatched The database was deleted.", "closed No longer watched.")
	b.same("ann", b.subjects("ann")[3:], "Recovered: orders after 1h0m0s", "No longer watched: orders")
	raise(outage.OfDisk(1))
	if tickets, n, err := b.store.Tickets(t.Context(), b.owner, store.ListQuery{}); err != nil || n != 4 {
		t.Errorf("%d tickets, %v: %+v", n, err, tickets)
	}
}

// TestWindowsAreToldOfIfTheOperatorWants: all contacts and channels, each once, and
// nobody unless it is wanted. A sent one is no business of a ticket's.
func TestWindowsAreToldOfIfTheOperatorWants(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.database()
	w := monitor.NoticeWindow{Start: b.now, End: b.now.Add(time.Hour), Work: "much"}
	tell := func() {
		b.do(func(tx *store.Tx) error { return b.issues.TellWindow(t.Context(), tx, monitor.NoticeBegun, c, w) })
	}
	tell()
	if all, err := b.store.Notices(t.Context(), store.NoticeQuery{}); err != nil || len(all) > 0 {
		t.Fatalf("unasked: %v %+v", err, all)
	}
	b.issues.Maintenance = true
	tell()
	tell()
	all, err := b.store.Notices(t.Context(), store.NoticeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var to []string
	for _, n := range all {
		to = append(to, n.Channel+" "+n.Recipient)
		want := w
		want.Database = "orders"
		if n.Kind != monitor.NoticeBegun || n.Database != c.ID || !n.Window.Equal(w.Start) || n.Account != b.owner || !cmp.Equal(*n.Content.Maintenance, want) {
			t.Errorf("%+v", n)
		}
		b.do(func(tx *store.Tx) error { return outage.Told(t.Context(), tx, n.Delivered(b.now)) })
	}
	slices.Sort(to)
	if diff := cmp.Diff([]string{"email ann@example.org", "email bob@example.org", "ops "}, to); diff != "" {
		t.Error(diff)
	}
}

// database is one of the owner's.
func (b *bench) database() (c cluster.Cluster) {
	b.do(func(tx *store.Tx) (err error) {
		spec := cluster.Spec{
			Label: "orders", Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1, AllowList: cluster.AllowList{},
			Replication: cluster.ReplicationNone, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(1),
		}
		c, err = tx.CreateCluster(b.t.Context(), cluster.Cluster{Account: b.owner, Spec: spec}, nil, store.Ports{First: 21000, Last: 21000})
		return err
	})
	return c
}

// TestGrowthIsToldOf: contacts and the operator's channels are told of each move to a larger type, and once a day that there is none.
func TestGrowthIsToldOf(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.database()
	morning := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	for _, told := range []struct {
		at time.Time
		to string
	}{
		{morning, ""}, {morning.Add(time.Hour), ""}, {morning.Add(24 * time.Hour), ""}, {morning, "large"}, {morning.Add(time.Hour), "larger"},
	} {
		b.do(func(tx *store.Tx) error {
			return b.issues.TellGrowth(t.Context(), tx, c, told.at, told.to, "It is full.")
		})
	}
	all, err := b.store.Notices(t.Context(), store.NoticeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, n := range all {
		got[fmt.Sprintf("%s %s %s", n.Kind, n.Content.Growth.Database, n.Content.Growth.Type)]++
	}
	const each = 3 // two contacts and a channel
	if diff := cmp.Diff(map[string]int{"full orders ": 2 * each, "grown orders large": each, "grown orders larger": each}, got); diff != "" {
		t.Error(diff)
	}
}
