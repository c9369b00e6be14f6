package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/channel"
	"steward/internal/notify/email"
	"steward/internal/notify/notifytest"
	"steward/internal/notify/outbox"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// office is a store with a mail server, and servers that send.
type office struct {
	t     *testing.T
	store *store.Store
	mail  *notifytest.Server
	now   *movable
	owner account.ID
}

// movable is a clock that runs, and can be moved.
type movable struct{ by atomic.Int64 }

func (c *movable) now() time.Time       { return time.Now().Add(time.Duration(c.by.Load())) }
func (c *movable) pass(d time.Duration) { c.by.Add(int64(d)) }

func newOffice(t *testing.T) *office {
	t.Helper()
	now := &movable{}
	o := &office{t: t, now: now, store: pgtest.Store(t, pgtest.WithNow(now.now)), mail: notifytest.Start(t, notifytest.Options{})}
	o.owner = newOwner(t, o.store)
	return o
}

func newOwner(t *testing.T, s *store.Store) (id account.ID) {
	t.Helper()
	if err := s.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return id
}

func (o *office) sender(change ...func(*email.Options)) *email.Sender {
	o.t.Helper()
	options := email.Options{URL: o.mail.URL(), From: "Steward <alerts@example.org>", Patience: 5 * time.Second}
	for _, c := range change {
		c(&options)
	}
	s, err := email.New(options)
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

// start runs a server until stop is called or the test ends.
func (o *office) start(change ...func(*outbox.Options)) (stop func()) {
	o.t.Helper()
	options := outbox.Options{
		Store: o.store, Senders: map[string]notify.Sender{monitor.EmailChannel: o.sender()}, Holder: "a",
		Logger: slog.New(slog.DiscardHandler), Now: o.now.now, Sweep: 150 * time.Millisecond,
	}
	for _, c := range change {
		c(&options)
	}
	n := outbox.New(options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	stop = func() { cancel(); <-done }
	o.t.Cleanup(stop)
	return stop
}

// issue makes an open issue with its ticket.
func (o *office) issue() (id monitor.IssueID) {
	o.t.Helper()
	return newIssueOf(o.t, o.store, o.owner)
}

func newIssueOf(t *testing.T, s *store.Store, owner account.ID) (id monitor.IssueID) {
	t.Helper()
	err := s.Pool().QueryRow(t.Context(), `WITH t AS (
		INSERT INTO tickets (account_id, summary, status, opened, updated) VALUES ($1, 'down', 'open', now(), now()) RETURNING id)
		INSERT INTO issues (account_id, ticket_id, host, created) SELECT $1, id, 'shop.example.org', now() FROM t RETURNING id`, int64(owner)).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// close marks an issue as over.
func (o *office) close(of monitor.IssueID) {
	o.t.Helper()
	if _, err := o.store.Pool().Exec(o.t.Context(), "UPDATE issues SET closed = now() WHERE id = $1", int64(of)); err != nil {
		o.t.Fatal(err)
	}
}

func noticeOf(owner account.ID, of monitor.IssueID, kind monitor.NoticeKind, to string) monitor.Notice {
	began := time.Now()
	n := monitor.Notice{
		Account: owner, Issue: of, Kind: kind, Channel: monitor.EmailChannel, Recipient: to, Name: "Zoë " + to,
		Content: monitor.Content{Ticket: 1, Summary: "shop.example.org is down", Opened: began},
	}
	if kind == monitor.NoticeRecovered {
		n.Content.Closed = &began
	}
	return n
}

// tell records notices, and returns when.
func (o *office) tell(notices ...monitor.Notice) time.Time {
	o.t.Helper()
	if err := o.store.InTx(o.t.Context(), func(tx *store.Tx) error { return tx.CreateNotices(o.t.Context(), notices) }); err != nil {
		o.t.Fatal(err)
	}
	return time.Now()
}

func (o *office) notice(of monitor.IssueID, kind monitor.NoticeKind, to string) monitor.Notice {
	return noticeOf(o.owner, of, kind, to)
}

// awaitNotices waits until all notices are as wanted, and returns them, oldest first.
func (o *office) awaitNotices(what string, wanted func(monitor.Notice) bool) []monitor.Notice {
	o.t.Helper()
	return awaitNotices(o.t, o.store, what, wanted)
}

func awaitNotices(t *testing.T, s *store.Store, what string, wanted func(monitor.Notice) bool) []monitor.Notice {
	t.Helper()
	var all []monitor.Notice
	await.NoError(t, what, func() (err error) {
		if all, err = s.Notices(t.Context(), store.NoticeQuery{Most: 10000}); err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(all, func(n monitor.Notice) bool { return !wanted(n) }); i >= 0 {
			return fmt.Errorf("%+v", all[i])
		}
		return nil
	})
	slices.Reverse(all)
	return all
}

func isSent(n monitor.Notice) bool { return n.State == monitor.NoticeSent }

// TestNoticeIsSentOnceItIsCommitted: it is the commit that has it sent, not a look
// now and then, of which there is none within the test's time.
func TestNoticeIsSentOnceItIsCommitted(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start(func(n *outbox.Options) { n.Sweep = time.Hour })
	var slowest time.Duration
	for i := range 20 {
		to := fmt.Sprintf("%d@example.org", i)
		committed := o.tell(o.notice(o.issue(), monitor.NoticeOpened, to))
		mail := o.mail.Await(t, 1, time.Minute, func(m notifytest.Mail) bool { return m.EnvelopeTo == to })[0]
		slowest = max(slowest, mail.At.Sub(committed))
		if mail.To.Name != "Zoë "+to {
			t.Errorf("%q", mail.To.Name)
		}
	}
	t.Logf("slowest: %s", slowest)
	sent := o.awaitNotices("sent", isSent)
	if n := sent[0]; n.Attempts != 1 || n.Sent == nil || n.Problem != "" {
		t.Errorf("%+v", n)
	}
}

// TestBurstIsSentOnce has two servers on one store, for twenty contacts of whom one
// has a quarter of all issues.
func TestBurstIsSentOnce(t *testing.T) {
	t.Parallel()
	const all = 500
	o := newOffice(t)
	o.start()
	o.start(func(n *outbox.Options) { n.Holder = "b" })
	var notices []monitor.Notice
	for i := range all {
		to := "busy@example.org"
		if i%4 > 0 {
			to = fmt.Sprintf("%d@example.org", i%20)
		}
		notices = append(notices, o.notice(o.issue(), monitor.NoticeOpened, to))
	}
	begun := o.tell(notices...)
	o.mail.Await(t, all, time.Minute, nil)
	took := time.Since(begun)
	o.awaitNotices("sent", isSent)
	seen := map[string]bool{}
	for _, m := range o.mail.Mails() {
		if seen[m.MessageID()] {
			t.Errorf("%s twice", m.MessageID())
		}
		seen[m.MessageID()] = true
	}
	connections, _ := o.mail.Connections()
	t.Logf("%d mails in %s over %d connections", len(seen), took, connections)
	if len(seen) != all || connections > all/5 {
		t.Errorf("%d mails in %s over %d connections", len(seen), took, connections)
	}
}

func TestDeadMailServerIsOutlived(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Down()
	o.start()
	issue := o.issue()
	o.tell(o.notice(issue, monitor.NoticeOpened, "ada@example.org"))
	tried := o.awaitNotices("tried", func(n monitor.Notice) bool { return n.Problem != "" && n.State == monitor.NoticePending })[0]
	if tried.Problem != "The mail server can't be used: it refuses connections." {
		t.Error(tried.Problem)
	}
	// The outage ends first. The contact gets both, in their order, and the first says that it is late.
	o.close(issue)
	o.tell(o.notice(issue, monitor.NoticeRecovered, "ada@example.org"))
	for range 5 {
		before := o.awaitNotices("pending", func(n monitor.Notice) bool { return n.State == monitor.NoticePending })[0].Attempts
		o.now.pass(time.Hour)
		o.awaitNotices("tried again", func(n monitor.Notice) bool {
			// An attempt counts from its start; the pause to the next one begins with its end.
			return n.Kind == monitor.NoticeRecovered && n.Attempts == 0 || n.Kind == monitor.NoticeOpened && n.Attempts > before && n.State == monitor.NoticePending
		})
	}
	o.mail.Up(t)
	o.now.pass(time.Hour)
	mails := o.mail.Await(t, 2, 30*time.Second, nil)
	o.awaitNotices("sent", isSent)
	if !strings.HasPrefix(mails[0].Subject, "Problem: ") || !strings.HasPrefix(mails[1].Subject, "Recovered: ") || len(o.mail.Mails()) != 2 {
		t.Errorf("%s, then %s", mails[0].Subject, mails[1].Subject)
	}
	if !strings.Contains(mails[0].Text, "this notice comes late") || mails[1].Header.Get("In-Reply-To") != mails[0].MessageID() {
		t.Errorf("%s\n%v", mails[0].Text, mails[1].Header)
	}
}

// TestAllIsSentOnceTheServerIsBack: what waits for an hour needn't, when another
// notice finds the server well.
func TestAllIsSentOnceTheServerIsBack(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Down()
	o.start()
	for i := range 20 {
		o.tell(o.notice(o.issue(), monitor.NoticeOpened, fmt.Sprintf("%d@example.org", i)))
	}
	for tries := range 6 {
		o.awaitNotices("tried", func(n monitor.Notice) bool { return n.State == monitor.NoticePending && n.Attempts > tries })
		o.now.pass(2 * time.Minute)
	}
	o.awaitNotices("due in minutes", func(n monitor.Notice) bool {
		return n.State == monitor.NoticePending && n.Due.Sub(o.now.now()) > time.Minute
	})
	o.mail.Up(t)
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "new@example.org"))
	o.mail.Await(t, 21, 20*time.Second, nil)
}

func TestGivenUp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var told sync.Map
	o.start(func(n *outbox.Options) {
		n.OnSent = func(_ context.Context, _ *store.Tx, n monitor.Notice) error {
			told.Store(n.Recipient, n)
			return nil
		}
	})
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, To: "no@example.org", Code: 550}, notifytest.Fault{At: notifytest.OnRcpt, To: "full@example.org", Code: 452})
	issue := o.issue()
	o.tell(o.notice(issue, monitor.NoticeOpened, "no@example.org"), o.notice(issue, monitor.NoticeOpened, "full@example.org"), o.notice(issue, monitor.NoticeOpened, "ada@example.org"))
	o.awaitNotices("tried", func(n monitor.Notice) bool { return n.Attempts > 0 && n.State != monitor.NoticeSending })
	o.now.pass(monitor.NoticePatience)
	all := o.awaitNotices("ended", func(n monitor.Notice) bool { return n.State == monitor.NoticeSent || n.State == monitor.NoticeFailed })
	if n := all[0]; n.State != monitor.NoticeFailed || n.Attempts != 1 || n.Problem != "The mail server refused it: 550 5.3.0 fault on purpose" {
		t.Errorf("a permanent refusal: %+v", n)
	}
	if n := all[1]; n.State != monitor.NoticeFailed || n.Attempts < 2 {
		t.Errorf("two days of transient ones: %+v", n)
	}
	for to, state := range map[string]monitor.NoticeState{"no@example.org": monitor.NoticeFailed, "full@example.org": monitor.NoticeFailed, "ada@example.org": monitor.NoticeSent} {
		if n, ok := told.Load(to); !ok || n.(monitor.Notice).State != state {
			t.Errorf("%s: %v", to, n)
		}
	}
	// The operator has it tried again.
	o.mail.Heal()
	if err := o.store.InTx(t.Context(), func(tx *store.Tx) error { _, err := tx.RetryNotices(t.Context(), 0); return err }); err != nil {
		t.Fatal(err)
	}
	o.awaitNotices("sent", isSent)
}

// TestTicketsAndMailsRepeatNothingOfTheHouse: what the operator's mail server says,
// how it is configured and what the operator's channels are called is for the
// operator, who finds all of it in the log and with the notices.
func TestTicketsAndMailsRepeatNothingOfTheHouse(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, Code: 550, Times: 1})
	var log lockedBuilder
	o.start(func(n *outbox.Options) {
		n.OnSent, n.Logger = outage.Told, slog.New(slog.NewTextHandler(&log, nil))
		n.Senders["ops"] = notify.Missing{}
	})
	issue := o.issue()
	toChannel := o.notice(issue, monitor.NoticeOpened, "")
	toChannel.Channel, toChannel.Name = "ops", ""
	o.tell(o.notice(issue, monitor.NoticeOpened, "ada@example.org"), toChannel)
	given := o.awaitNotices("failed", func(n monitor.Notice) bool { return n.State == monitor.NoticeFailed })
	o.close(issue)
	o.tell(o.notice(issue, monitor.NoticeRecovered, "ada@example.org"))
	mail := o.mail.Await(t, 1, 10*time.Second, nil)[0]
	o.awaitNotices("ended", func(n monitor.Notice) bool { return n.State == monitor.NoticeFailed || isSent(n) })

	var ticket monitor.TicketID
	if err := o.store.Pool().QueryRow(t.Context(), "SELECT ticket_id FROM issues WHERE id = $1", int64(issue)).Scan(&ticket); err != nil {
		t.Fatal(err)
	}
	replies, _, err := o.store.Replies(t.Context(), o.owner, ticket, store.ListQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var timeline []string
	for _, r := range replies {
		timeline = append(timeline, r.Text)
	}
	slices.Sort(timeline)
	want := []string{
		"Could not tell Zoë ada@example.org <ada@example.org> that the outage began. The operator's log tells why.",
		"Could not tell the operator that the outage began. The operator's log tells why.",
		"Told Zoë ada@example.org <ada@example.org> that the outage is over.",
	}
	if !slices.Equal(timeline, want) {
		t.Errorf("the ticket says %q", timeline)
	}
	for _, word := range []string{"550", "fault on purpose", "smtp.url", "notify.channels", "ops"} {
		if strings.Contains(mail.Text, word) {
			t.Errorf("the mail shows %q:\n%s", word, mail.Text)
		}
	}
	if given[0].Problem != "The mail server refused it: 550 5.3.0 fault on purpose" || given[1].Problem != "The channel ops isn't configured (notify.channels)." {
		t.Errorf("the operator's list says %q and %q", given[0].Problem, given[1].Problem)
	}
	if text := log.String(); !strings.Contains(text, "550 5.3.0 fault on purpose") || !strings.Contains(text, "channel=ops") {
		t.Errorf("the operator's log:\n%s", text)
	}
}

func TestRecoveryAfterAnOpeningThatWasGivenUp(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, Code: 550, Times: 1})
	o.start()
	issue := o.issue()
	o.tell(o.notice(issue, monitor.NoticeOpened, "ada@example.org"))
	o.awaitNotices("failed", func(n monitor.Notice) bool { return n.State == monitor.NoticeFailed })
	o.close(issue)
	o.tell(o.notice(issue, monitor.NoticeRecovered, "ada@example.org"))
	mail := o.mail.Await(t, 1, 10*time.Second, nil)[0]
	if !strings.Contains(mail.Text, "The notice of its beginning couldn't be delivered.") || !strings.Contains(mail.Text, "It began at ") {
		t.Error(mail.Text)
	}
}

func TestSlowRecipientHoldsUpNobody(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, To: "slow@example.org", Hang: true})
	hook := make(chan struct{}, 1)
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hook <- struct{}{} }))
	t.Cleanup(web.Close)
	ops, err := channel.New(strings.Replace(web.URL, "http://", "generic+http://", 1))
	if err != nil {
		t.Fatal(err)
	}
	// Whoever waited for a slow one would wait longer than the test does.
	unhurried := o.sender(func(e *email.Options) { e.Patience = time.Hour })
	o.start(func(n *outbox.Options) {
		n.Senders = map[string]notify.Sender{monitor.EmailChannel: unhurried, "ops": ops}
	})
	for range 100 {
		o.tell(o.notice(o.issue(), monitor.NoticeOpened, "slow@example.org"))
	}
	chat := o.notice(o.issue(), monitor.NoticeOpened, "")
	chat.Channel = "ops"
	o.tell(o.notice(chat.Issue, monitor.NoticeOpened, "ada@example.org"), chat)
	o.mail.Await(t, 1, time.Minute, nil)
	<-hook
}

// byAccount hangs for one account, and counts at how many that account's sendings have been at once; others are sent at once.
type byAccount struct {
	slow       account.ID
	mu         sync.Mutex
	hang, most int
	sent       chan monitor.Notice
}

// Send implements notify.Sender.
func (s *byAccount) Send(ctx context.Context, n monitor.Notice, _ func() error) error {
	if n.Account != s.slow {
		s.sent <- n
		return nil
	}
	s.mu.Lock()
	s.hang++
	s.most = max(s.most, s.hang)
	s.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// Close implements notify.Sender.
func (s *byAccount) Close() {}

// TestSlowReceiversOfAnAccountHoldUpNoOther: an account may have many webhooks, and none of them needs to answer.
func TestSlowReceiversOfAnAccountHoldUpNoOther(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	sender := &byAccount{slow: o.owner, sent: make(chan monitor.Notice, 10)}
	var slow []monitor.Notice
	for range 10 {
		issue := o.issue()
		for c := range 50 {
			n := o.notice(issue, monitor.NoticeOpened, fmt.Sprint(c))
			n.Channel = monitor.AccountChannel
			slow = append(slow, n)
		}
	}
	o.tell(slow...)
	o.start(func(n *outbox.Options) { n.Senders = map[string]notify.Sender{monitor.AccountChannel: sender} })
	atIt := func() int {
		sender.mu.Lock()
		defer sender.mu.Unlock()
		return sender.hang
	}
	await.True(t, "the slow ones are at it", func() bool { return atIt() >= 4 })
	var other account.ID
	if err := o.store.Pool().QueryRow(t.Context(), "INSERT INTO accounts (name, created) VALUES ('other', now()) RETURNING id").Scan(&other); err != nil {
		t.Fatal(err)
	}
	for c := range 3 {
		n := noticeOf(other, newIssueOf(t, o.store, other), monitor.NoticeOpened, fmt.Sprint(100+c))
		n.Channel = monitor.AccountChannel
		o.tell(n)
	}
	for range 3 {
		select {
		case n := <-sender.sent:
			if n.Account != other {
				t.Errorf("sent: %+v", n)
			}
		case <-time.After(time.Minute):
			t.Fatalf("the other account's notices wait behind %d of the slow one's", atIt())
		}
	}
	if n := atIt(); n > 8 {
		t.Errorf("%d of the slow account's are at it at once", n)
	}
}

func TestWhatIsNotConfiguredIsSaid(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.start(func(n *outbox.Options) { n.Senders = nil })
	chat := o.notice(o.issue(), monitor.NoticeOpened, "")
	chat.Channel = "ops"
	o.tell(o.notice(chat.Issue, monitor.NoticeOpened, "ada@example.org"), chat)
	all := o.awaitNotices("failed", func(n monitor.Notice) bool { return n.State == monitor.NoticeFailed })
	if all[0].Problem != "No mail server is configured (smtp.url)." || all[1].Problem != "The channel ops isn't configured (notify.channels)." {
		t.Errorf("%+v", all)
	}
}

// TestHookIsOfTheSameTransaction: what it writes is there exactly when the notice is
// marked, and its faults don't have a mail sent twice.
func TestHookIsOfTheSameTransaction(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var calls atomic.Int32
	o.start(func(n *outbox.Options) {
		n.OnSent = func(ctx context.Context, tx *store.Tx, n monitor.Notice) error {
			_, err := tx.Pgx().Exec(ctx, `INSERT INTO ticket_replies (ticket_id, kind, created_by, from_staff, text, created)
				SELECT ticket_id, 'notice', 'steward', true, $2, now() FROM issues WHERE id = $1`, int64(n.Issue), n.Recipient)
			if calls.Add(1) == 1 || n.Recipient == "never@example.org" {
				return errors.New("on purpose")
			}
			return err
		}
	})
	issue := o.issue()
	o.tell(o.notice(issue, monitor.NoticeOpened, "ada@example.org"))
	o.awaitNotices("sent", isSent)
	o.tell(o.notice(issue, monitor.NoticeOpened, "never@example.org"))
	o.awaitNotices("sent", isSent)
	var entries int
	if err := o.store.Pool().QueryRow(t.Context(), "SELECT count(*) FROM ticket_replies").Scan(&entries); err != nil {
		t.Fatal(err)
	}
	if entries != 1 || len(o.mail.Mails()) != 2 {
		t.Errorf("%d entries, %d mails", entries, len(o.mail.Mails()))
	}
}

// TestSentIsLoggedOnceItIsRecorded: what the log says was sent can't be sent again.
func TestSentIsLoggedOnceItIsRecorded(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	logged := &lines{}
	early := make(chan bool, 1)
	o.start(func(n *outbox.Options) {
		n.Logger = slog.New(slog.NewTextHandler(logged, nil))
		n.OnSent = func(context.Context, *store.Tx, monitor.Notice) error {
			early <- logged.has("notice sent")
			return nil
		}
	})
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "ada@example.org"))
	if <-early {
		t.Error("logged before it was committed")
	}
	o.awaitNotices("sent", isSent)
	await.True(t, "logged", func() bool { return logged.has("notice sent") })
}

// lines is a log that can be looked at.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// TestStoppedServerDoesNotSendWhatOthersHave: its lease ran out between the claim and
// the last moment.
func TestStoppedServerDoesNotSendWhatOthersHave(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	hold, held := make(chan struct{}), make(chan struct{})
	stopped := &pausing{Sender: o.sender(), hold: hold, held: held}
	o.start(func(n *outbox.Options) { n.Senders = map[string]notify.Sender{monitor.EmailChannel: stopped} })
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "ada@example.org"))
	<-held
	o.now.pass(2 * time.Minute)
	o.start(func(n *outbox.Options) { n.Holder = "b" })
	o.mail.Await(t, 1, 10*time.Second, nil)
	o.awaitNotices("sent", isSent)
	close(hold)
	if err := stopped.result(); err == nil {
		t.Error("the first server handed it over as well")
	}
	if n := len(o.mail.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

// pausing is a sender whose process is stopped right before the last moment.
type pausing struct {
	notify.Sender
	hold, held chan struct{}
	once       sync.Once
	err        error
	done       chan struct{}
	mu         sync.Mutex
}

func (p *pausing) Send(ctx context.Context, n monitor.Notice, mayHandOver func() error) error {
	err := p.Sender.Send(context.WithoutCancel(ctx), n, func() error {
		p.once.Do(func() { close(p.held); <-p.hold })
		return mayHandOver()
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = err; p.done != nil {
		close(p.done)
	}
	return err
}

func (p *pausing) result() error {
	p.mu.Lock()
	done := make(chan struct{})
	if p.err == nil {
		p.done = done
	} else {
		close(done)
	}
	p.mu.Unlock()
	<-done
	return p.err
}

// TestCutFromTheStore: who sent it says so when the store is back, and nobody sends
// it again in between.
func TestCutFromTheStore(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var fails atomic.Bool
	fails.Store(true)
	o.start(func(n *outbox.Options) {
		n.OnSent = func(ctx context.Context, tx *store.Tx, _ monitor.Notice) error {
			if fails.Load() { // the connection is lost in the transaction, each time
				_, err := tx.Pgx().Exec(ctx, "SELECT pg_terminate_backend(pg_backend_pid())")
				return err
			}
			return nil
		}
	})
	o.start(func(n *outbox.Options) { n.Holder = "b" })
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "ada@example.org"))
	o.mail.Await(t, 1, 10*time.Second, nil)
	o.now.pass(time.Minute)
	fails.Store(false)
	o.awaitNotices("sent", isSent)
	if n := len(o.mail.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

// TestStopGivesBackWhatIsBeingClaimed: a claim that the store makes while steward stops
// isn't forgotten.
func TestStopGivesBackWhatIsBeingClaimed(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	conn, err := o.store.Pool().Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	// Whoever claims waits for this lock.
	for _, sql := range []string{
		"CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN NEW; END'",
		"CREATE TRIGGER wait_for_test BEFORE UPDATE ON notices FOR EACH ROW EXECUTE FUNCTION wait_for_test()",
		"SELECT pg_advisory_lock(4711)",
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, Hang: true})
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "ada@example.org"))
	n := outbox.New(outbox.Options{
		Store: o.store, Senders: map[string]notify.Sender{monitor.EmailChannel: o.sender()}, Holder: "a",
		Logger: slog.New(slog.DiscardHandler), Now: o.now.now, Sweep: 150 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	await.True(t, "a claim", func() bool {
		var waits int
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted").Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits > 0
	})
	cancel()
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock(4711)"); err != nil {
		t.Fatal(err)
	}
	<-done
	o.awaitNotices("given back", func(n monitor.Notice) bool { return n.State == monitor.NoticePending && n.Attempts == 1 })
}

func TestStopGivesBackWhatWasNotHandedOver(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, Hang: true})
	stop := o.start()
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "ada@example.org"))
	o.awaitNotices("being sent", func(n monitor.Notice) bool { return n.State == monitor.NoticeSending })
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 4*time.Second { // the server is given up after five
		t.Errorf("stopping took %s", took)
	}
	o.awaitNotices("given back", func(n monitor.Notice) bool { return n.State == monitor.NoticePending })
	o.mail.Heal()
	o.start(func(n *outbox.Options) { n.Holder = "b" })
	o.awaitNotices("sent", isSent)
	if n := len(o.mail.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

// TestLongSendKeepsItsLease: a mail filter thinks for longer than a lease.
func TestLongSendKeepsItsLease(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Fail(notifytest.Fault{At: notifytest.OnDone, Delay: 4 * time.Second, Times: 1})
	short := func(n *outbox.Options) { n.Lease = 2 * time.Second }
	o.start(short)
	o.start(short, func(n *outbox.Options) { n.Holder = "b" })
	o.tell(o.notice(o.issue(), monitor.NoticeOpened, "ada@example.org"))
	sent := o.awaitNotices("sent", isSent)
	if n := len(o.mail.Mails()); n != 1 || sent[0].Attempts != 1 {
		t.Errorf("%d mails, %+v", n, sent[0])
	}
}

// TestLogNamesNoSecrets has everything go wrong with a password and a channel's URL.
func TestLogNamesNoSecrets(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	ops, err := channel.New(strings.Replace(web.URL, "http://", "generic+http://", 1) + "/hunter2")
	if err != nil {
		t.Fatal(err)
	}
	var log lockedBuilder
	o.mail.Down()
	o.start(func(n *outbox.Options) {
		n.Senders = map[string]notify.Sender{"ops": ops, monitor.EmailChannel: o.sender(func(e *email.Options) { e.URL = strings.Replace(o.mail.URL(), "smtp://", "smtp://u:hunter2@", 1) })}
		n.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	chat := o.notice(o.issue(), monitor.NoticeOpened, "")
	chat.Channel = "ops"
	o.tell(chat, o.notice(chat.Issue, monitor.NoticeOpened, "ada@example.org"))
	o.awaitNotices("tried", func(n monitor.Notice) bool { return n.Problem != "" })
	if text := log.String(); strings.Contains(text, "hunter2") || strings.Count(text, "notice not sent") < 2 {
		t.Error(text)
	}
}

type lockedBuilder struct {
	mu sync.Mutex
	b  strings.Builder
}

var _ io.Writer = (*lockedBuilder)(nil)

func (l *lockedBuilder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuilder) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestNoticesOfAWindowAreSentByTheSameSenders: they outlive a mail server that is away,
// come in their order and in one thread, and can be tried again.
func TestNoticesOfAWindowAreSentByTheSameSenders(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mail.Down()
	o.start(func(n *outbox.Options) { n.OnSent = outage.Told })
	var c cluster.Cluster
	err := o.store.InTx(t.Context(), func(tx *store.Tx) (err error) {
		c, err = tx.CreateCluster(t.Context(), cluster.Cluster{Account: o.owner, Spec: cluster.Spec{
			Label: "orders", Engine: cluster.PostgreSQL, Series: "15", Region: "local", Type: "g6-nanode-1", Size: 1, AllowList: cluster.AllowList{},
			Replication: cluster.ReplicationNone, Commit: cluster.CommitLocal, Updates: cluster.DefaultWindow(1),
		}}, nil, store.Ports{First: 21000, Last: 21000})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.store.CreateContact(t.Context(), monitor.Contact{Account: o.owner, Name: "Ada", Email: "ada@example.org"}); err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	tell := func(kind monitor.NoticeKind) {
		t.Helper()
		w := monitor.NoticeWindow{Start: start, End: start.Add(time.Hour), Work: "The servers move."}
		if err := o.store.InTx(t.Context(), func(tx *store.Tx) error {
			return outage.IssueTracker{Maintenance: true}.TellWindow(t.Context(), tx, kind, c, w)
		}); err != nil {
			t.Fatal(err)
		}
	}
	tell(monitor.NoticeAnnounced)
	o.awaitNotices("tried", func(n monitor.Notice) bool { return n.Problem != "" && n.State == monitor.NoticePending })
	tell(monitor.NoticeBegun)
	tell(monitor.NoticeDone)
	o.mail.Up(t)
	o.now.pass(time.Hour)
	mails := o.mail.Await(t, 3, 30*time.Second, nil)
	o.awaitNotices("sent", isSent)
	for i, want := range []string{"Maintenance of orders: 2026-11-23 02:00 to 03:00 UTC", "Maintenance of orders has begun", "Maintenance of orders is done"} {
		if m := mails[i]; m.Subject != want || m.To.Name != "Ada" || i > 0 && m.Header.Get("In-Reply-To") != mails[0].MessageID() {
			t.Errorf("mail %d: %s, %v", i, m.Subject, m.Header)
		}
	}
	// One that is refused for good is the operator's to try again, as any other.
	o.mail.Fail(notifytest.Fault{At: notifytest.OnRcpt, Code: 550, Times: 1})
	start = start.AddDate(0, 0, 7)
	tell(monitor.NoticeAnnounced)
	failed := o.awaitNotices("ended", func(n monitor.Notice) bool { return n.State == monitor.NoticeSent || n.State == monitor.NoticeFailed })[3]
	if failed.State != monitor.NoticeFailed {
		t.Fatalf("%+v", failed)
	}
	o.mail.Heal()
	if err := o.store.InTx(t.Context(), func(tx *store.Tx) error { _, err := tx.RetryNotices(t.Context(), failed.ID); return err }); err != nil {
		t.Fatal(err)
	}
	o.awaitNotices("sent", isSent)
	if n := len(o.mail.Mails()); n != 4 {
		t.Errorf("%d mails", n)
	}
}
