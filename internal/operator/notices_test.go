package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"steward/internal/account"
	"steward/internal/config"
	"steward/internal/metrics"
	"steward/internal/monitor"
	"steward/internal/notify/notifytest"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestTestNotice(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{TLS: true, Username: "steward", Password: "hunter2"})
	c := config.Default()
	c.SMTP = config.SMTP{URL: server.URL("tls=required"), From: "Steward <alerts@example.org>", CAFile: server.CAFile}
	if err := TestNotice(t.Context(), c, "ada@example.org", ""); err != nil {
		t.Fatal(err)
	}
	mail := server.Await(t, 1, time.Second, nil)[0]
	if mail.Subject != "Test: steward can reach you" || !strings.Contains(mail.Text, "Nothing is wrong") || strings.Contains(mail.Text, "icket") || !mail.TLS {
		t.Errorf("%s\n%s", mail.Subject, mail.Text)
	}
	server.Fail(notifytest.Fault{At: notifytest.OnRcpt, Code: 550})
	for name, test := range map[string]struct {
		c           config.Config
		to, channel string
		want        string
	}{
		"refused":     {c, "ada@example.org", "", "The mail server refused it: 550 5.3.0 fault on purpose"},
		"no address":  {c, "ada", "", `"ada" isn't an e-mail address`},
		"no server":   {config.Default(), "ada@example.org", "", "No mail server is configured (smtp.url)."},
		"no channel":  {c, "", "ops", "The channel ops isn't configured (notify.channels)."},
		"not trusted": {config.Config{SMTP: config.SMTP{URL: c.SMTP.URL, From: c.SMTP.From}}, "ada@example.org", "", "The mail server can't be used: its certificate isn't valid."},
	} {
		if err := TestNotice(t.Context(), test.c, test.to, test.channel); err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoticesOfOperators walks through what `steward notice` and the metrics show.
func TestNoticesOfOperators(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := pgtest.Store(t)
	x := &Access{store: s}
	m := metrics.NewNotices(s)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	var owner account.ID
	var issue monitor.IssueID
	if err := s.Pool().QueryRow(ctx, "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&owner); err != nil {
		t.Fatal(err)
	}
	err := s.Pool().QueryRow(ctx, `WITH t AS (
		INSERT INTO tickets (account_id, summary, status, opened, updated) VALUES ($1, 'down', 'open', now(), now()) RETURNING id)
		INSERT INTO issues (account_id, ticket_id, host, created) SELECT $1, id, 'h', now() FROM t RETURNING id`, int64(owner)).Scan(&issue)
	if err != nil {
		t.Fatal(err)
	}
	err = s.InTx(ctx, func(tx *store.Tx) error {
		n := monitor.Notice{Account: owner, Issue: issue, Kind: monitor.NoticeOpened, Channel: monitor.EmailChannel, Recipient: "a@example.org"}
		other := n
		other.Recipient = "b@example.org"
		return tx.CreateNotices(ctx, []monitor.Notice{n, other})
	})
	if err != nil {
		t.Fatal(err)
	}
	claimed, err := s.ClaimNotices(ctx, store.NoticeClaim{Holder: "x", Channels: []string{monitor.EmailChannel}, Each: 1, Most: 1, Lease: time.Minute})
	if err != nil || len(claimed) != 1 {
		t.Fatal(claimed, err)
	}
	failed := claimed[0].Failed(time.Now(), "No such mailbox.", true)
	if err := s.InTx(ctx, func(tx *store.Tx) error { return tx.EndNotice(ctx, "x", failed) }); err != nil {
		t.Fatal(err)
	}
	m.Ended(failed)
	m.Ended(claimed[0].Delivered(claimed[0].Created.Add(time.Millisecond)))
	const want = `
# HELP steward_notices_attempts_total Attempts of this server to send a notice, by what came of them.
# TYPE steward_notices_attempts_total counter
steward_notices_attempts_total{channel="email",result="failed"} 1
steward_notices_attempts_total{channel="email",result="sent"} 1
# HELP steward_notices_unsent Notices that wait (pending, sending) or couldn't be delivered (failed).
# TYPE steward_notices_unsent gauge
steward_notices_unsent{channel="email",state="failed"} 1
steward_notices_unsent{channel="email",state="pending"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "steward_notices_attempts_total", "steward_notices_unsent"); err != nil {
		t.Error(err)
	}
	only, err := x.Notices(ctx, true)
	if err != nil || len(only) != 1 || only[0].Problem != "No such mailbox." {
		t.Fatalf("%v %+v", err, only)
	}
	if _, err := x.RetryNotices(ctx, 999); err == nil || !strings.Contains(err.Error(), "there is no notice 999") {
		t.Error(err)
	}
	if n, err := x.RetryNotices(ctx, 0); err != nil || n != 1 {
		t.Error(n, err)
	}
	if only, err = x.Notices(ctx, true); err != nil || len(only) != 0 {
		t.Errorf("%v %+v", err, only)
	}
}
