package outage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/monitor"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is an account with two contacts, of which one is of the group web.
type bench struct {
	t     *testing.T
	store *store.Store
	owner account.ID
	desk  outage.Desk
	now   time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, store: pgtest.Store(t), desk: outage.Desk{Channels: []string{"ops"}}, now: time.Now().Truncate(time.Second)}
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

func (b *bench) begin(s monitor.Service, host string, at time.Duration) {
	b.t.Helper()
	found := monitor.Result{Started: b.now.Add(at), Class: monitor.Refused, Detail: "The connection was refused."}
	b.do(func(tx *store.Tx) error { return b.desk.Begin(b.t.Context(), tx, s, host, found) })
}

func (b *bench) end(s monitor.Service, at time.Duration) {
	b.t.Helper()
	b.do(func(tx *store.Tx) error { return b.desk.End(b.t.Context(), tx, s, b.now.Add(at), "answers again.") })
}

// state is all issues in a few words: their services, + for open; who was told of
// what, and the timeline.
func (b *bench) state() string {
	b.t.Helper()
	issues, _, err := b.store.Issues(b.t.Context(), b.owner, store.Page{})
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
		notices, err := b.store.Notices(b.t.Context(), store.NoticeQuery{Issue: i.ID})
		if err != nil {
			b.t.Fatal(err)
		}
		told := map[string]bool{}
		for _, n := range notices {
			told[strings.TrimSuffix(n.Recipient+n.Channel, "email")+" "+string(n.Kind)] = true
		}
		for _, who := range []string{"ann@example.org", "bob@example.org", "ops"} {
			for _, kind := range []string{"opened", "recovered"} {
				if told[who+" "+kind] {
					line.WriteString(" " + who[:3] + ":" + kind[:1])
				}
			}
		}
		lines = append(lines, line.String())
	}
	return strings.Join(lines, "; ")
}

func (b *bench) expect(when, want string) {
	b.t.Helper()
	if got := b.state(); got != want {
		b.t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// TestIssues: services that fail together are one issue, and each contact is told
// once of its beginning and once of its end.
func TestIssues(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two, three := b.service("one", "web"), b.service("two", ""), b.service("three", "web")
	b.begin(one, "a.example", 0)
	b.expect("one fails", "[1]+ ann:o ops:o")
	b.begin(one, "a.example", time.Second)
	b.expect("and again", "[1]+ ann:o ops:o")
	b.begin(two, "a.example", time.Minute)
	b.expect("two on the same host, whose group is everybody", "[1 2]+ ann:o bob:o ops:o")
	b.begin(three, "b.example", time.Minute)
	b.expect("three on another", "[1 2]+ ann:o bob:o ops:o; [3]+ ann:o ops:o")
	b.end(one, 2*time.Minute)
	b.expect("one is well", "[1 2]+ ann:o bob:o ops:o; [3]+ ann:o ops:o")
	b.begin(one, "a.example", 150*time.Second)
	b.end(two, 160*time.Second)
	b.expect("one fails again before the other is well", "[2 1]+ ann:o bob:o ops:o; [3]+ ann:o ops:o")
	b.end(one, 3*time.Minute)
	b.end(one, 4*time.Minute)
	b.expect("all of a are well", "[2 1] ann:o ann:r bob:o bob:r ops:o ops:r; [3]+ ann:o ops:o")
	b.end(three, time.Second)
	b.expect("a clock that was set back ends it, too", "[2 1] ann:o ann:r bob:o bob:r ops:o ops:r; [3] ann:o ann:r ops:o ops:r")
	b.begin(two, "a.example", time.Hour)
	b.expect("a new outage is a new issue", "[2 1] ann:o ann:r bob:o bob:r ops:o ops:r; [3] ann:o ann:r ops:o ops:r; [2]+ ann:o bob:o ops:o")
	b.begin(one, "a.example", time.Hour+3*time.Minute)
	b.expect("one that fails later is another", "[2 1] ann:o ann:r bob:o bob:r ops:o ops:r; [3] ann:o ann:r ops:o ops:r; [2]+ ann:o bob:o ops:o; [1]+ ann:o ops:o")
}

// TestCauses: a cause has one open issue; settling one settles those below it.
func TestCauses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	raise := func(c outage.Cause) {
		b.do(func(tx *store.Tx) error { return b.desk.Raise(t.Context(), tx, b.owner, c, "it is full", b.now) })
	}
	settle := func(c outage.Cause) {
		b.do(func(tx *store.Tx) error { return b.desk.Settle(t.Context(), tx, b.owner, c, "it is well", b.now) })
	}
	raise(outage.OfDisk(1))
	raise(outage.OfDisk(1))
	raise(outage.OfBackup(1, 7))
	raise(outage.OfDisk(12))
	settle(outage.OfBackup(1, 70))
	b.expect("three causes", "[]+ ann:o bob:o ops:o; []+ ann:o bob:o ops:o; []+ ann:o bob:o ops:o")
	settle(outage.OfDatabase(1))
	b.expect("database 1 is gone", "[] ann:o ann:r bob:o bob:r ops:o ops:r; [] ann:o ann:r bob:o bob:r ops:o ops:r; []+ ann:o bob:o ops:o")
	raise(outage.OfDisk(1))
	if tickets, n, err := b.store.Tickets(t.Context(), b.owner, store.ListQuery{}); err != nil || n != 4 {
		t.Errorf("%d tickets, %v: %+v", n, err, tickets)
	}
}
