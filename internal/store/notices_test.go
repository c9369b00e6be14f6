package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// newIssue makes an open issue with its ticket.
func newIssue(t *testing.T, s *store.Store, owner account.ID) (id monitor.IssueID) {
	t.Helper()
	err := s.Pool().QueryRow(t.Context(), `WITH t AS (
		INSERT INTO tickets (account_id, summary, status, opened, updated) VALUES ($1, 'down', 'open', now(), now()) RETURNING id)
		INSERT INTO issues (account_id, ticket_id, host, created) SELECT $1, id, 'shop.example.org', now() FROM t RETURNING id`, int64(owner)).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func notice(owner account.ID, of monitor.IssueID, kind monitor.NoticeKind, recipient string) monitor.Notice {
	return monitor.Notice{
		Account: owner, Issue: of, Kind: kind, Channel: monitor.EmailChannel, Recipient: recipient, Name: "Ada",
		Content: monitor.Content{Summary: "down", Services: []monitor.NoticeService{{Label: "shop", Address: "https://shop.example.org/?key=hunter2"}}},
	}
}

func createNotices(t *testing.T, s *store.Store, notices ...monitor.Notice) {
	t.Helper()
	inTx(t, s, func(tx *store.Tx) error { return tx.CreateNotices(t.Context(), notices) })
}

func claim(holder string) store.NoticeClaim {
	return store.NoticeClaim{Holder: holder, Channels: []string{monitor.EmailChannel}, Each: 4, Most: 8, Lease: time.Minute}
}

func claimed(t *testing.T, s *store.Store, c store.NoticeClaim) []monitor.Notice {
	t.Helper()
	got, err := s.ClaimNotices(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func end(t *testing.T, s *store.Store, holder string, n monitor.Notice) {
	t.Helper()
	inTx(t, s, func(tx *store.Tx) error { return tx.EndNotice(t.Context(), holder, n) })
}

// clock is moved by tests.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now().Truncate(time.Microsecond)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestNoticesAreCreatedOnce(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := pgtest.Store(t, pgtest.WithNow(clock.now))
	owner := newAccount(t, s, "a").Account
	issue := newIssue(t, s, owner)
	n := notice(owner, issue, monitor.NoticeOpened, "ada@example.org")
	createNotices(t, s, n, n, notice(owner, issue, monitor.NoticeOpened, "bob@example.org"))
	createNotices(t, s, n)
	createNotices(t, s)
	all, err := s.Notices(t.Context(), store.NoticeQuery{Account: owner, Issue: issue})
	if err != nil || len(all) != 2 {
		t.Fatalf("%v %+v", err, all)
	}
	want := n
	want.ID, want.State, want.Due, want.Created, want.GiveUp = all[1].ID, monitor.NoticePending, clock.at, clock.at, clock.at.Add(monitor.NoticePatience)
	want.Content = n.Content.Public()
	if diff := cmp.Diff(want, all[1]); diff != "" {
		t.Error(diff)
	}
	if others, err := s.Notices(t.Context(), store.NoticeQuery{Account: owner + 1}); err != nil || len(others) > 0 {
		t.Errorf("%v %+v", err, others)
	}
}

func TestNoticeIsClaimedByOne(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := pgtest.Store(t, pgtest.WithNow(clock.now))
	owner := newAccount(t, s, "a").Account
	issue := newIssue(t, s, owner)
	var made []monitor.Notice
	for i := range 40 {
		made = append(made, notice(owner, issue, monitor.NoticeOpened, fmt.Sprintf("%d@example.org", i)))
	}
	createNotices(t, s, made...)
	var mu sync.Mutex
	holders := map[monitor.NoticeID]int{}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for {
				got, err := s.ClaimNotices(t.Context(), claim(fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, n := range got {
					holders[n.ID]++
				}
				done := len(holders) == len(made)
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	wg.Wait()
	for id, n := range holders {
		if n != 1 {
			t.Errorf("notice %d was claimed %d times", id, n)
		}
	}
	if got := claimed(t, s, claim("x")); len(got) != 0 {
		t.Errorf("claimed again: %+v", got)
	}
	clock.pass(time.Minute)
	mine := claim("0")
	for id := range holders {
		mine.AtIt = append(mine.AtIt, id)
	}
	if got := claimed(t, s, mine); len(got) != 0 {
		t.Errorf("claimed what it is at: %+v", got)
	}
	if got := claimed(t, s, claim("x")); len(got) != 8 || got[0].Attempts != 2 {
		t.Errorf("after the lease: %+v", got)
	}
}

func TestNoticeLease(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := pgtest.Store(t, pgtest.WithNow(clock.now))
	owner := newAccount(t, s, "a").Account
	createNotices(t, s, notice(owner, newIssue(t, s, owner), monitor.NoticeOpened, "ada@example.org"))
	n := claimed(t, s, claim("a"))[0]
	clock.pass(50 * time.Second)
	kept, err := s.RenewNotices(t.Context(), "a", []monitor.NoticeID{n.ID}, time.Minute)
	if err != nil || !slices.Equal(kept, []monitor.NoticeID{n.ID}) {
		t.Fatal(kept, err)
	}
	clock.pass(50 * time.Second)
	if got := claimed(t, s, claim("b")); len(got) != 0 {
		t.Fatal("a renewed lease was broken")
	}
	clock.pass(10 * time.Second)
	if got := claimed(t, s, claim("b")); len(got) != 1 {
		t.Fatal("a lease that ran out holds")
	}
	if kept, err := s.RenewNotices(t.Context(), "a", []monitor.NoticeID{n.ID}, time.Minute); err != nil || len(kept) != 0 {
		t.Fatal(kept, err)
	}
	// What the first holder failed at is the second's by now, but what it sent is sent.
	err = s.InTx(t.Context(), func(tx *store.Tx) error { return tx.EndNotice(t.Context(), "a", n.Failed(clock.now(), "no", true)) })
	if !fault.IsKind(err, fault.NotFound) {
		t.Error(err)
	}
	end(t, s, "a", n.Delivered(clock.now()))
	err = s.InTx(t.Context(), func(tx *store.Tx) error { return tx.EndNotice(t.Context(), "b", n.Delivered(clock.now())) })
	if !fault.IsKind(err, fault.NotFound) {
		t.Errorf("sent twice: %v", err)
	}
	if n, err := s.ReleaseNotices(t.Context(), "b", nil); err != nil || n != 0 {
		t.Error(n, err)
	}
}

func TestNoticesOfAPredecessorAreReleased(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	owner := newAccount(t, s, "a").Account
	createNotices(t, s, notice(owner, newIssue(t, s, owner), monitor.NoticeOpened, "ada@example.org"))
	n := claimed(t, s, claim("a"))[0]
	for _, c := range []struct {
		holder   string
		except   []monitor.NoticeID
		released int64
	}{{"b", nil, 0}, {"a", []monitor.NoticeID{n.ID}, 0}, {"a", nil, 1}} {
		if n, err := s.ReleaseNotices(t.Context(), c.holder, c.except); err != nil || n != c.released {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
	if got := claimed(t, s, claim("b")); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestRecoveryWaitsForItsOpening(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		how    func(monitor.Notice) monitor.Notice
		failed bool
	}{
		{"sent", func(n monitor.Notice) monitor.Notice { return n.Delivered(time.Now()) }, false},
		{"given up", func(n monitor.Notice) monitor.Notice { return n.Failed(time.Now(), "no", true) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := pgtest.Store(t)
			owner := newAccount(t, s, "a").Account
			issue := newIssue(t, s, owner)
			createNotices(t, s, notice(owner, issue, monitor.NoticeRecovered, "ada@example.org"), notice(owner, issue, monitor.NoticeOpened, "ada@example.org"),
				notice(owner, issue, monitor.NoticeRecovered, "late@example.org"))
			if _, err := s.Pool().Exec(t.Context(), "UPDATE issues SET closed = now()"); err != nil {
				t.Fatal(err)
			}
			got := claimed(t, s, claim("a"))
			slices.SortFunc(got, func(a, b monitor.Notice) int { return int(a.ID - b.ID) })
			if len(got) != 2 || got[0].Kind != monitor.NoticeOpened || got[0].Over == nil || got[1].Recipient != "late@example.org" || got[1].Opening != 0 {
				t.Fatalf("%+v", got)
			}
			if more := claimed(t, s, claim("b")); len(more) != 0 {
				t.Fatalf("while the opening is being sent: %+v", more)
			}
			end(t, s, "a", c.how(got[0]))
			after := claimed(t, s, claim("b"))
			if len(after) != 1 || after[0].Kind != monitor.NoticeRecovered || after[0].Opening != got[0].ID || after[0].OpeningFailed != c.failed {
				t.Errorf("%+v", after)
			}
		})
	}
}

func TestClaimIsFairToRecipientsAndChannels(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	owner := newAccount(t, s, "a").Account
	for range 20 {
		createNotices(t, s, notice(owner, newIssue(t, s, owner), monitor.NoticeOpened, "slow@example.org"))
	}
	chat := notice(owner, newIssue(t, s, owner), monitor.NoticeOpened, "")
	chat.Channel = "chat"
	createNotices(t, s, notice(owner, chat.Issue, monitor.NoticeOpened, "ada@example.org"), chat)
	if got := claimed(t, s, claim("a")); len(got) != 5 {
		t.Errorf("%d at once, not 4 to one recipient and the other one's", len(got))
	}
	c := claim("a")
	c.Busy = []string{"slow@example.org"}
	if got := claimed(t, s, c); len(got) != 0 {
		t.Errorf("of a busy recipient: %+v", got)
	}
	c.Others = true
	if got := claimed(t, s, c); len(got) != 1 || got[0].Channel != "chat" {
		t.Errorf("%+v", got)
	}
}

func TestFailedNoticesAreRetriedOnDemand(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := pgtest.Store(t, pgtest.WithNow(clock.now))
	owner := newAccount(t, s, "a").Account
	issue := newIssue(t, s, owner)
	createNotices(t, s, notice(owner, issue, monitor.NoticeOpened, "a@example.org"), notice(owner, issue, monitor.NoticeOpened, "b@example.org"))
	got := claimed(t, s, claim("a"))
	for _, n := range got {
		end(t, s, "a", n.Failed(clock.now(), "No such mailbox.", true))
	}
	counts, err := s.NoticeCounts(t.Context())
	if want := []store.NoticeCount{{monitor.EmailChannel, monitor.NoticeFailed, 2, clock.at}}; err != nil || !cmp.Equal(want, counts) {
		t.Fatal(err, cmp.Diff(want, counts))
	}
	clock.pass(72 * time.Hour)
	retry := func(id monitor.NoticeID) (n int) {
		inTx(t, s, func(tx *store.Tx) (err error) {
			n, err = tx.RetryNotices(t.Context(), id)
			return err
		})
		return n
	}
	if n := retry(got[0].ID); n != 1 {
		t.Error(n)
	}
	if n := retry(0); n != 1 {
		t.Errorf("%d instead of the other one", n)
	}
	again := claimed(t, s, claim("a"))
	if len(again) != 2 || again[0].Attempts != 1 || !again[0].GiveUp.Equal(clock.at.Add(monitor.NoticePatience)) {
		t.Errorf("%+v", again)
	}
}

func TestHasten(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	owner := newAccount(t, s, "a").Account
	createNotices(t, s, notice(owner, newIssue(t, s, owner), monitor.NoticeOpened, "a@example.org"))
	n := claimed(t, s, claim("a"))[0]
	n.Attempts = 9
	if _, err := s.Pool().Exec(t.Context(), "UPDATE notices SET attempts = 9"); err != nil {
		t.Fatal(err)
	}
	end(t, s, "a", n.Failed(time.Now(), "Mail server away.", false))
	if got := claimed(t, s, claim("a")); len(got) != 0 {
		t.Fatal("not due yet")
	}
	if n, err := s.HastenNotices(t.Context(), "chat"); n != 0 || err != nil {
		t.Error(n, err)
	}
	if n, err := s.HastenNotices(t.Context(), monitor.EmailChannel); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got := claimed(t, s, claim("a")); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

func TestCommitOfNoticesIsHeard(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	owner := newAccount(t, s, "a").Account
	issue := newIssue(t, s, owner)
	ctx, cancel := context.WithCancel(t.Context())
	heard := make(chan struct{}, 16)
	var wg sync.WaitGroup
	wg.Go(func() { s.ListenNotices(ctx, func() { heard <- struct{}{} }) })
	defer wg.Wait()
	defer cancel()
	wait := func(what string) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(10 * time.Second):
			t.Fatal(what, "isn't heard")
		}
	}
	wait("the connect")
	createNotices(t, s, notice(owner, issue, monitor.NoticeOpened, "a@example.org"))
	wait("a notice")
	if _, err := s.Pool().Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'steward listener' AND datname = current_database()"); err != nil {
		t.Fatal(err)
	}
	wait("the new connect")
}

// ofWindow is a notice of the maintenance window that opens at start.
func ofWindow(c cluster.Cluster, start time.Time, kind monitor.NoticeKind, recipient string) monitor.Notice {
	return monitor.Notice{
		Account: c.Account, Database: c.ID, Window: start, Kind: kind, Channel: monitor.EmailChannel, Recipient: recipient, Name: "Ada",
		Content: monitor.Content{Maintenance: &monitor.NoticeWindow{Database: c.Label, Start: start, End: start.Add(time.Hour), Work: "much"}},
	}
}

// TestNoticesOfAWindowAreCreatedOnce: per window, kind and recipient, and beside those of issues.
func TestNoticesOfAWindowAreCreatedOnce(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := pgtest.Store(t, pgtest.WithNow(clock.now))
	owner := newAccount(t, s, "a").Account
	c := newCluster(t, s, owner, "orders")
	start := clock.now().UTC().Add(time.Hour).Truncate(time.Hour)
	n := ofWindow(c, start, monitor.NoticeAnnounced, "ada@example.org")
	createNotices(t, s, n, n, notice(owner, newIssue(t, s, owner), monitor.NoticeOpened, "ada@example.org"))
	createNotices(t, s, n, ofWindow(c, start, monitor.NoticeAnnounced, "bob@example.org"),
		ofWindow(c, start.Add(7*24*time.Hour), monitor.NoticeAnnounced, "ada@example.org"), ofWindow(c, start, monitor.NoticeBegun, "ada@example.org"))
	all, err := s.Notices(t.Context(), store.NoticeQuery{Account: owner})
	if err != nil || len(all) != 5 {
		t.Fatalf("%v %+v", err, all)
	}
	got := all[len(all)-1]
	want := n
	want.ID, want.State, want.Due, want.Created, want.GiveUp = got.ID, monitor.NoticePending, clock.at, clock.at, clock.at.Add(monitor.NoticePatience)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestNoticesOfAWindowComeInTheirOrder: what came of the work isn't sent before what
// was told earlier has been sent or given up, and is in one thread with it.
func TestNoticesOfAWindowComeInTheirOrder(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	c := newCluster(t, s, newAccount(t, s, "a").Account, "orders")
	start := time.Now().UTC().Truncate(time.Hour)
	kinds := []monitor.NoticeKind{monitor.NoticeAnnounced, monitor.NoticeBegun, monitor.NoticeDone}
	for _, kind := range kinds {
		createNotices(t, s, ofWindow(c, start, kind, "ada@example.org"))
	}
	// Another window is another matter.
	createNotices(t, s, ofWindow(c, start.Add(time.Hour), monitor.NoticeDone, "ada@example.org"))
	var first monitor.NoticeID
	for i, kind := range kinds {
		got := claimed(t, s, claim("a"))
		got = slices.DeleteFunc(got, func(n monitor.Notice) bool { return !n.Window.Equal(start) })
		if len(got) != 1 || got[0].Kind != kind || got[0].Opening != first || got[0].Content.Maintenance.Work != "much" {
			t.Fatalf("%s: %+v", kind, got)
		}
		if i == 0 {
			first = got[0].ID
			end(t, s, "a", got[0].Failed(time.Now(), "no", true))
			continue
		}
		end(t, s, "a", got[0].Delivered(time.Now()))
	}
}

// TestNoticesGoWithTheirDatabase: of one whose row is gone there is nothing to tell.
func TestNoticesGoWithTheirDatabase(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	c := newCluster(t, s, newAccount(t, s, "a").Account, "orders")
	createNotices(t, s, ofWindow(c, time.Now(), monitor.NoticeAnnounced, "ada@example.org"))
	if _, err := s.Pool().Exec(t.Context(), "DELETE FROM clusters WHERE id = $1", int64(c.ID)); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Notices(t.Context(), store.NoticeQuery{}); err != nil || len(all) > 0 {
		t.Errorf("%v %+v", err, all)
	}
}
