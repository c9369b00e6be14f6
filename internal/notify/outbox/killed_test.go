package outbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/failpoint"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/email"
	"steward/internal/notify/notifytest"
	"steward/internal/notify/outbox"
	"steward/internal/pgtest"
	"steward/internal/store"
	"steward/internal/testdir"
)

// TestSendingChild is the server that TestKilledAtEveryStep kills: it sends until it
// is killed, or until nothing is left.
func TestSendingChild(t *testing.T) {
	url := os.Getenv("STEWARD_NOTICES_STORE")
	if url == "" {
		t.Skip("a part of TestKilledAtEveryStep")
	}
	s := pgtest.Open(t, store.Options{URL: url, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler)})
	sender, err := email.New(email.Options{URL: os.Getenv("STEWARD_NOTICES_SMTP"), From: "alerts@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("STEWARD_FAILPOINT_ARMED"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		outbox.New(outbox.Options{
			Store: s, Senders: map[string]notify.Sender{monitor.EmailChannel: sender}, Holder: "a", Logger: slog.New(slog.DiscardHandler),
		}).Run(ctx)
	}()
	awaitNotices(t, s, "sent", isSent)
	cancel()
	<-done
}

// TestKilledAtEveryStep kills a server at each step of sending an opening and a
// recovery, and starts it again: both arrive in their order, and twice only what
// the mail server had taken before the kill.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	if failpoint.Enabled {
		t.Skip("this is the test's own child")
	}
	testdir.NeedsServers(t)
	binary := filepath.Join(t.TempDir(), "outbox.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "failpoint", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for step, reached := 1, true; reached; step++ {
		reached = killedAt(t, binary, step)
		if !reached && step < 8 {
			t.Errorf("only %d steps", step-1)
		}
	}
}

// killedAt reports whether there is such a step.
func killedAt(t *testing.T, binary string, step int) bool {
	t.Helper()
	url := pgtest.MigratedURL(t)
	s := pgtest.Open(t, store.Options{URL: url, Sealer: pgtest.Sealer(), Logger: slog.New(slog.DiscardHandler)})
	mail := notifytest.Start(t, notifytest.Options{})
	owner := newOwner(t, s)
	issue := newIssueOf(t, s, owner)
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		return tx.CreateNotices(t.Context(), []monitor.Notice{
			noticeOf(owner, issue, monitor.NoticeOpened, "ada@example.org"), noticeOf(owner, issue, monitor.NoticeRecovered, "ada@example.org"),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	child := func(step int) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := exec.CommandContext(ctx, binary, "-test.run", "^TestSendingChild$")
		c.Env = append(os.Environ(), "STEWARD_NOTICES_STORE="+url, "STEWARD_NOTICES_SMTP="+mail.URL(), fmt.Sprintf("STEWARD_FAILPOINT=%d", step),
			"STEWARD_FAILPOINT_ARMED="+filepath.Join(t.TempDir(), "armed"), "STEWARD_FAILPOINT_LOG="+log)
		return c.Run()
	}
	killed := child(step) != nil
	hits, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(hits)), "\n")
	last := lines[len(lines)-1]
	taken := len(mail.Mails())
	if killed {
		if err := child(0); err != nil {
			t.Fatalf("step %s: the next start: %v", last, err)
		}
	}
	var kinds []string
	for i, m := range mail.Mails() {
		repeated := i > 0 && i == taken && m.MessageID() == mail.Mails()[i-1].MessageID()
		if !repeated {
			kinds = append(kinds, strings.SplitN(m.Subject, ":", 2)[0])
		} else if !strings.HasSuffix(last, "handed over") && !strings.HasSuffix(last, "before commit") {
			t.Errorf("step %s: sent twice", last)
		}
	}
	if strings.Join(kinds, " ") != "Problem Recovered" {
		t.Errorf("step %s: %v", last, kinds)
	}
	return killed
}
