package hook_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/alert"
	"steward/internal/await"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/hook"
	"steward/internal/notify/outbox"
	"steward/internal/outage"
	"steward/internal/pgtest"
	"steward/internal/probe"
	"steward/internal/seal"
	"steward/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// receiver is a webhook's other side, which answers what the test wants.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	answer int
	got    []hook.Message
	secret string
	forged int
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{answer: http.StatusOK}
	r.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body) // a short one is forged
		r.mu.Lock()
		defer r.mu.Unlock()
		if in.Header.Get(hook.SignatureHeader) != hook.Sign(r.secret, in.Header.Get(hook.TimestampHeader), body) {
			r.forged++
		}
		var m hook.Message
		if json.Unmarshal(body, &m) == nil && r.answer == http.StatusOK {
			r.got = append(r.got, m)
		}
		w.WriteHeader(r.answer)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = status
}

func (r *receiver) messages() []hook.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]hook.Message{}, r.got...)
}

// TestWebhook: what opens and what closes reaches the webhook once each and in order, also when it refused it at first; one that
// was deleted is given up, and one that leads to the operator's network is never reached.
func TestWebhook(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := pgtest.Store(t)
	var owner account.ID
	if err := s.Pool().QueryRow(ctx, "INSERT INTO accounts (name, created) VALUES ('a', now()) RETURNING id").Scan(&owner); err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t)
	r.secret = "a secret of the test's"
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	networks := &monitor.Networks{Regions: map[string][]netip.Prefix{"local": {netip.MustParsePrefix("127.0.0.0/8")}}}
	sender := &hook.Sender{Poster: probe.New(probe.Options{Networks: networks, Roots: roots, UserAgent: "test"}), Targets: s}
	key, err := s.DataKey(ctx, owner)
	if err != nil {
		t.Fatal(err)
	}
	var channels []alert.Channel
	issues := outage.IssueTracker{}
	do := func(f func(tx *store.Tx) error) {
		t.Helper()
		if err := s.InTx(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	for label, region := range map[string]string{"ops": "local", "inside": ""} {
		do(func(tx *store.Tx) error {
			c, err := tx.CreateAlertChannel(ctx, owner, alert.Channel{Label: label, Kind: alert.Webhook, URL: r.URL + "/in", Region: region}, key, seal.NewSecret(r.secret))
			channels = append(channels, c)
			return err
		})
	}
	r.answers(http.StatusServiceUnavailable)
	at := time.Now()
	cause := outage.OfAlert(7, alert.DiskFilling)
	do(func(tx *store.Tx) error {
		return issues.RaiseTo(ctx, tx, owner, cause, "shop", "The disk is 83 % full.", at, outage.Audience{Channels: channels})
	})
	b := outbox.New(outbox.Options{Store: s, Senders: map[string]notify.Sender{monitor.AccountChannel: sender}, Holder: "a", OnSent: outage.Told, Logger: pgtest.Logger(t), Sweep: 50 * time.Millisecond})
	sending, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { b.Run(sending) })
	defer running.Wait()
	defer stop()
	problems := func() map[string]string {
		all, err := s.Notices(ctx, store.NoticeQuery{Account: owner})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, n := range all {
			if n.Kind == monitor.NoticeOpened {
				found[n.Name] = n.Problem
			}
		}
		return found
	}
	await.True(t, "both are refused", func() bool {
		p := problems()
		return p["ops"] == "The answer has status 503." && p["inside"] != "" && p["inside"] != p["ops"]
	})
	do(func(tx *store.Tx) error {
		return issues.Settle(ctx, tx, owner, cause, "All is well.", at.Add(time.Minute))
	})
	r.answers(http.StatusOK)
	await.True(t, "both notices arrive", func() bool { return len(r.messages()) == 2 })
	got := r.messages()
	if got[0].Kind != monitor.NoticeOpened || got[0].Summary != "shop: The disk is 83 % full." || got[0].Opened == nil || got[1].Kind != monitor.NoticeRecovered || got[1].Closed == nil {
		t.Errorf("%+v", got)
	}
	for _, c := range channels {
		do(func(tx *store.Tx) error { return tx.DeleteAlertChannel(ctx, owner, c.ID) })
	}
	n := monitor.Notice{Account: owner, Channel: monitor.AccountChannel, Recipient: strconv.FormatInt(int64(channels[0].ID), 10)}
	if err := sender.Send(ctx, n, func() error { return nil }); err == nil || !notify.AsError(err).Permanent {
		t.Errorf("to a deleted channel: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forged > 0 {
		t.Errorf("%d requests weren't signed as they should be", r.forged)
	}
}

// TestSign: what receivers are told to compute, here by openssl.
func TestSign(t *testing.T) {
	t.Parallel()
	const want = "v1=49f24e537407743fa4a0242bb63b94b9a47ee99cbbe071ccd8a22550ae411686"
	if got := hook.Sign("secret", "1700000000", []byte(`{"a":1}`)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
