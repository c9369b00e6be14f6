package email_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/email"
	"steward/internal/notify/notifytest"
	"steward/internal/testdir"
)

const from = "Steward Überwachung <alerts@example.org>"

func newSender(t *testing.T, s *notifytest.Server, o email.Options) *email.Sender {
	t.Helper()
	if o.URL == "" {
		o.URL = s.URL()
	}
	o.From, o.Hello = from, "steward.example.org"
	sender, err := email.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	return sender
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func opened(id monitor.NoticeID, to string) monitor.Notice {
	return monitor.Notice{
		ID: id, Issue: 12, Kind: monitor.NoticeOpened, Channel: monitor.EmailChannel, Recipient: to, Name: "Ada", Created: noon,
		Content: monitor.Content{
			Ticket: 17, Summary: "shop.example.org is down", Opened: noon,
			Services: []monitor.NoticeService{{Label: "shop", Address: "https://shop.example.org/", Detail: "The connection was refused.", Since: noon}},
		},
	}
}

func go1() error { return nil }

func send(t *testing.T, s notify.Sender, n monitor.Notice) {
	t.Helper()
	if err := s.Send(t.Context(), n, go1); err != nil {
		t.Fatal(err)
	}
}

// refusal is the error of a notice that mustn't be sent.
func refusal(t *testing.T, s notify.Sender, n monitor.Notice) *notify.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := s.Send(ctx, n, go1)
	known, ok := errors.AsType[*notify.Error](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	return known
}

func TestMessage(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{})
	n := opened(5, "ada@example.org")
	n.Name, n.Content.Summary = "Ada Lovelace, née Byron", "käse.example.org ist <b>kaputt</b> & “aus”"
	send(t, sender, n)
	send(t, sender, n)
	recovered := n
	recovered.ID, recovered.Kind, recovered.Created = 6, monitor.NoticeRecovered, noon.Add(time.Hour)
	recovered.Opening, recovered.OpeningCreated = 5, noon
	send(t, sender, recovered)
	mails := server.Await(t, 3, time.Second, nil)
	first := mails[0]
	type headers struct{ Subject, From, FromName, To, ToName, Auto, ID, Date, EnvelopeFrom, EnvelopeTo string }
	want := headers{
		"Problem: käse.example.org ist <b>kaputt</b> & “aus”", "alerts@example.org", "Steward Überwachung", "ada@example.org", "Ada Lovelace, née Byron",
		"auto-generated", first.MessageID(), "Sat, 21 Nov 2026 12:00:00 +0000", "alerts@example.org", "ada@example.org",
	}
	got := headers{
		first.Subject, first.From.Address, first.From.Name, first.To.Address, first.To.Name, first.Header.Get("Auto-Submitted"), first.MessageID(),
		first.Header.Get("Date"), first.EnvelopeFrom, first.EnvelopeTo,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(first.MessageID(), "<notice.5.") || !strings.HasSuffix(first.MessageID(), "@example.org>") || first.MessageID() != mails[1].MessageID() {
		t.Errorf("%s then %s", first.MessageID(), mails[1].MessageID())
	}
	if m := mails[2]; m.Header.Get("References") != first.MessageID() || m.Header.Get("In-Reply-To") != first.MessageID() || m.MessageID() == first.MessageID() {
		t.Errorf("no thread: %v", m.Header)
	}
	if first.Text != n.Letter().Text() {
		t.Error(cmp.Diff(n.Letter().Text(), first.Text))
	}
	if !strings.Contains(first.HTML, "&lt;b&gt;kaputt&lt;/b&gt; &amp; “aus”") || !strings.Contains(first.HTML, "The connection was refused.") || strings.Contains(first.HTML, "<b>") {
		t.Error(first.HTML)
	}
	for line := range strings.SplitSeq(string(first.Raw), "\r\n") {
		if len(line) > 998 || strings.ContainsFunc(line, func(r rune) bool { return r > 127 }) {
			t.Errorf("a line that not every server takes: %q", line)
		}
	}
}

// TestNothingIsInjected tries to add headers, recipients and whole messages.
func TestNothingIsInjected(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{})
	const evil = "x\r\nBcc: evil@example.org\r\n\r\n.\r\nMAIL FROM:<evil@example.org>\r\n"
	n := opened(1, "ada@example.org")
	n.Name, n.Content.Summary, n.Content.Host = evil, evil, evil
	n.Content.Services[0].Label, n.Content.Services[0].Address, n.Content.Services[0].Detail = evil, evil, evil
	send(t, sender, n)
	mail := server.Await(t, 1, time.Second, nil)[0]
	if len(mail.Header["Bcc"]) > 0 || len(server.Mails()) != 1 || mail.EnvelopeFrom != "alerts@example.org" || strings.Contains(mail.Text, "\nBcc") || strings.Contains(mail.Text, "\n.") {
		t.Errorf("%v\n%s", mail.Header, mail.Raw)
	}
	for _, to := range []string{
		"ada@example.org\r\nRCPT TO:<evil@example.org>", "ada@example.org>\r\nDATA", "<ada@example.org>", "Ada <ada@example.org>", "ada@example.org, evil@example.org",
		"", "ada", "@example.org", "ada@", "ada@example.org ", "ada\x00@example.org",
	} {
		if e := refusal(t, sender, opened(2, to)); !e.Permanent {
			t.Errorf("%q: %+v", to, e)
		}
	}
	if n := len(server.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

func TestInternationalAddresses(t *testing.T) {
	t.Parallel()
	plain := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, plain, email.Options{})
	send(t, sender, opened(1, "ada@käse.example"))
	if got := plain.Mails()[0].EnvelopeTo; got != "ada@xn--kse-qla.example" {
		t.Error(got)
	}
	if e := refusal(t, sender, opened(2, "jürgen@käse.example")); !e.Permanent {
		t.Errorf("%+v", e)
	}
	modern := notifytest.Start(t, notifytest.Options{SMTPUTF8: true})
	send(t, newSender(t, modern, email.Options{}), opened(1, "jürgen@käse.example"))
	if got := modern.Mails()[0].EnvelopeTo; got != "jürgen@xn--kse-qla.example" {
		t.Error(got)
	}
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	const user, password = "steward", "hunter2"
	for _, c := range []struct {
		name    string
		server  notifytest.Options
		options []string
		trust   bool
		// problem is "" when it is to go through, encrypted or not.
		problem   string
		encrypted bool
	}{
		{"STARTTLS", notifytest.Options{TLS: true, Username: user, Password: password}, []string{"tls=required"}, true, "", true},
		{"LOGIN", notifytest.Options{TLS: true, Username: user, Password: password, Login: true}, []string{"tls=required"}, true, "", true},
		{"smtps", notifytest.Options{Implicit: true, Username: user, Password: password}, nil, true, "", true},
		{"an unknown authority", notifytest.Options{TLS: true}, []string{"tls=required"}, false, "The mail server can't be used: its certificate isn't valid.", false},
		{"smtps of an unknown authority", notifytest.Options{Implicit: true}, nil, false, "The mail server can't be used: its certificate isn't valid.", false},
		{"no encryption", notifytest.Options{}, []string{"tls=required"}, false, "The mail server offers no encryption, which is required.", false},
		{"this machine", notifytest.Options{TLS: true}, nil, false, "", true},
		{"this machine without TLS", notifytest.Options{Username: user, Password: password}, nil, false, "", false},
		{"none", notifytest.Options{TLS: true}, []string{"tls=none"}, false, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := notifytest.Start(t, c.server)
			o := email.Options{URL: server.URL(c.options...)}
			if c.trust {
				o.CAFile = server.CAFile
			}
			sender := newSender(t, server, o)
			if c.problem != "" {
				if e := refusal(t, sender, opened(1, "ada@example.org")); e.Problem != c.problem || e.Permanent || !e.Down {
					t.Errorf("%+v", e)
				}
				return
			}
			send(t, sender, opened(1, "ada@example.org"))
			if m := server.Mails()[0]; m.TLS != c.encrypted || m.User != c.server.Username {
				t.Errorf("TLS %v, user %q", m.TLS, m.User)
			}
		})
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{Username: "steward", Password: "hunter2"})
	sender := newSender(t, server, email.Options{URL: strings.Replace(server.URL(), "hunter2", "hunter3", 1)})
	e := refusal(t, sender, opened(1, "ada@example.org"))
	if e.Problem != "The mail server refuses steward's user or password." || e.Permanent || !e.Down {
		t.Errorf("%+v", e)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"smtp://relay.example.org":                             "",
		"smtp://relay.example.org:25?tls=opportunistic":        "",
		"smtp://u:hunter2@relay.example.org":                   "",
		"smtps://u:hunter2@[2001:db8::1]:465":                  "",
		"smtp://u:hunter2@127.0.0.1:25?tls=none":               "",
		"smtp://u:hunter2@relay.example.org?tls=none":          "smtp.url: a password is sent with tls=required only",
		"smtp://u:hunter2@relay.example.org?tls=opportunistic": "smtp.url: a password is sent with tls=required only",
		"smtp://u@relay.example.org":                           "smtp.url: a user needs a password, and the other way round",
		"smtp://:hunter2@relay.example.org":                    "smtp.url: a user needs a password, and the other way round",
		"http://u:hunter2@relay.example.org":                   "smtp.url: must begin with smtp:// or smtps://",
		"relay.example.org:25":                                 "smtp.url: must be smtp://user:password@host:587 or smtps://user:password@host:465; special characters of a password are written as %XX",
		"smtp://u:hunter2%@relay.example.org":                  "smtp.url: must be smtp://user:password@host:587 or smtps://user:password@host:465; special characters of a password are written as %XX",
		"smtp://relay.example.org/path":                        "smtp.url: must be smtp://user:password@host:587 or smtps://user:password@host:465; special characters of a password are written as %XX",
		"smtp://relay.example.org?tls=maybe":                   "smtp.url: tls must be required, opportunistic or none",
		"smtp://relay.example.org?tls=none&tls=none":           `smtp.url: unknown or repeated option "tls": there is tls alone`,
		"smtp://relay.example.org?timeout=3":                   `smtp.url: unknown or repeated option "timeout": there is tls alone`,
		"smtps://relay.example.org?tls=none":                   "smtp.url: smtps:// is encrypted anyway: leave tls out",
	} {
		_, err := email.New(email.Options{URL: url, From: from})
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s", url, got)
		}
		if strings.Contains(got, "hunter2") {
			t.Errorf("shows the password: %s", got)
		}
	}
	_, err := email.New(email.Options{URL: "x", From: "x", CAFile: "/nowhere"})
	for _, key := range []string{"smtp.url: ", "smtp.from: ", "smtp.ca_file: "} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("not all faults at once: %v", err)
		}
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const patience = time.Second
	for _, c := range []struct {
		name            string
		fault           notifytest.Fault
		problem         string
		permanent, down bool
		// taken reports whether the message is in the mailbox all the same.
		taken bool
	}{
		{"busy at the door", notifytest.Fault{At: notifytest.OnConnect, Code: 421}, "421 4.3.0 fault on purpose", false, true, false},
		{"silent at the door", notifytest.Fault{At: notifytest.OnConnect, Hang: true}, "it doesn't answer in time", false, true, false},
		{"sender refused", notifytest.Fault{At: notifytest.OnMail, Code: 550}, "refused it: 550 5.3.0 fault on purpose", false, true, false},
		{"no such mailbox", notifytest.Fault{At: notifytest.OnRcpt, Code: 550}, "refused it: 550 5.3.0 fault on purpose", true, false, false},
		{"try later", notifytest.Fault{At: notifytest.OnRcpt, Code: 450}, "refused it: 450 4.3.0 fault on purpose", false, false, false},
		{"goes away", notifytest.Fault{At: notifytest.OnRcpt, Code: 421}, "refused it: 421 4.3.0 fault on purpose", false, true, false},
		{"silent", notifytest.Fault{At: notifytest.OnRcpt, Hang: true}, "it doesn't answer in time", false, true, false},
		{"lost in the middle", notifytest.Fault{At: notifytest.OnBody, Close: true}, "it ended the connection", false, true, false},
		{"text refused", notifytest.Fault{At: notifytest.OnBody, Code: 554}, "refused it: 554 5.3.0 fault on purpose", true, false, false},
		{"full", notifytest.Fault{At: notifytest.OnDone, Code: 452}, "refused it: 452 4.3.0 fault on purpose", false, false, false},
		{"lost after it was taken", notifytest.Fault{At: notifytest.OnDone, Close: true}, "it ended the connection", false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := notifytest.Start(t, notifytest.Options{})
			sender := newSender(t, server, email.Options{Patience: patience})
			server.Fail(c.fault)
			e := refusal(t, sender, opened(1, "ada@example.org"))
			if !strings.Contains(e.Problem, c.problem) || e.Permanent != c.permanent || e.Down != c.down {
				t.Errorf("%+v", e)
			}
			if strings.Contains(e.Problem, "127.0.0.1") {
				t.Errorf("names an address: %s", e.Problem)
			}
			if taken := len(server.Mails()) == 1; taken != c.taken {
				t.Errorf("%d mails", len(server.Mails()))
			}
			server.Heal()
			send(t, sender, opened(2, "bob@example.org"))
			if got := server.To("bob@example.org"); len(got) != 1 {
				t.Errorf("%d mails afterwards", len(got))
			}
		})
	}
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{})
	send(t, sender, opened(1, "ada@example.org"))
	server.Down()
	if e := refusal(t, sender, opened(2, "ada@example.org")); e.Problem != "The mail server can't be used: it refuses connections." || e.Permanent || !e.Down {
		t.Errorf("%+v", e)
	}
	server.Up(t)
	send(t, sender, opened(2, "ada@example.org"))
	if n := len(server.Mails()); n != 2 {
		t.Errorf("%d mails", n)
	}
}

// TestSlowAnswerIsWaitedFor: a filter that thinks for longer than a command may take
// must not get the message a second time.
func TestSlowAnswerIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{Patience: time.Second}) // a busy machine's commands take a tenth of it
	server.Fail(notifytest.Fault{At: notifytest.OnDone, Delay: 2 * time.Second})
	send(t, sender, opened(1, "ada@example.org"))
	if n := len(server.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{})
	for i := range monitor.NoticeID(60) {
		send(t, sender, opened(i, "ada@example.org"))
	}
	if all, _ := server.Connections(); all != 2 {
		t.Errorf("%d connections for 60 messages at 50 each", all)
	}
	// A refusal is of its recipient only.
	server.Fail(notifytest.Fault{At: notifytest.OnRcpt, To: "no@example.org", Code: 550})
	refusal(t, sender, opened(70, "no@example.org"))
	send(t, sender, opened(71, "ada@example.org"))
	if all, _ := server.Connections(); all != 2 {
		t.Errorf("%d connections after a refusal", all)
	}
	var together sync.WaitGroup
	for i := range monitor.NoticeID(8) {
		together.Go(func() { send(t, sender, opened(100+i, fmt.Sprintf("%d@example.org", i))) })
	}
	together.Wait()
	if n := len(server.Mails()); n != 69 {
		t.Errorf("%d mails", n)
	}
}

// TestMayHandOver is asked last, and its no leaves nothing behind.
func TestMayHandOver(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{})
	no := errors.New("another server has it")
	if err := sender.Send(t.Context(), opened(1, "ada@example.org"), func() error { return no }); !errors.Is(err, no) {
		t.Errorf("%v", err)
	}
	send(t, sender, opened(2, "bob@example.org"))
	if got := server.To("ada@example.org"); len(got) != 0 {
		t.Error("it was handed over")
	}
}

func TestEndOfContext(t *testing.T) {
	t.Parallel()
	server := notifytest.Start(t, notifytest.Options{})
	sender := newSender(t, server, email.Options{})
	for _, at := range []notifytest.Stage{notifytest.OnConnect, notifytest.OnRcpt} {
		server.Fail(notifytest.Fault{At: at, Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		begun := time.Now()
		err := sender.Send(ctx, opened(1, "ada@example.org"), go1)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 10*time.Second {
			t.Errorf("%s: %v after %s", at, err, time.Since(begun))
		}
		server.Heal()
	}
	// After the last dot the answer still counts.
	server.Fail(notifytest.Fault{At: notifytest.OnDone, Delay: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	if err := sender.Send(ctx, opened(2, "ada@example.org"), func() error { time.AfterFunc(100*time.Millisecond, cancel); return nil }); err != nil {
		t.Error(err)
	}
	cancel()
	if n := len(server.Mails()); n != 1 {
		t.Errorf("%d mails", n)
	}
}

// TestNotAMailServer says something else, and goes on for ever.
func TestNotAMailServer(t *testing.T) {
	t.Parallel()
	address := testdir.ServeLocally(t, func(conn net.Conn) {
		for err := error(nil); err == nil; {
			_, err = conn.Write([]byte("HTTP/1.1 400 Bad Request "))
		}
	})
	sender, err := email.New(email.Options{URL: "smtp://" + address, From: from, Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if e := refusal(t, sender, opened(1, "ada@example.org")); e.Permanent || !e.Down {
		t.Errorf("%+v", e)
	}
}
