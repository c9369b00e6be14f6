package channel_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/monitor"
	"steward/internal/notify"
	"steward/internal/notify/channel"
	"steward/internal/testdir"
)

func notice() monitor.Notice {
	return monitor.Notice{
		ID: 5, Issue: 12, Kind: monitor.NoticeOpened, Channel: "ops",
		Content: monitor.Content{Ticket: 17, Summary: "shop.example.org is down", Opened: time.Now()},
	}
}

func yes() error { return nil }

// hook is a webhook whose path is a secret.
func hook(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(func() { stop(server) })
	return strings.Replace(server.URL, "http://", "generic+http://", 1) + "/hunter2?template=json"
}

// stop ends a server without what its own Close does to the transport that all tests share, which breaks connections
// that others are just opening.
func stop(server *httptest.Server) { server.Config.Close() }

func newSender(t *testing.T, url string) *channel.Sender {
	t.Helper()
	s, err := channel.New(url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	url := hook(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r.URL.Path + " " + string(body)
	})
	if err := newSender(t, url).Send(t.Context(), notice(), yes); err != nil {
		t.Fatal(err)
	}
	path, body, _ := strings.Cut(<-got, " ")
	var message struct{ Message string }
	if err := json.Unmarshal([]byte(body), &message); err != nil || path != "/hunter2" {
		t.Fatal(path, body, err)
	}
	if !strings.HasPrefix(message.Message, "Problem: shop.example.org is down\n\n") || !strings.Contains(message.Message, "Ticket 17, issue 12.") {
		t.Error(message.Message)
	}
	no := errors.New("another server has it")
	if err := newSender(t, url).Send(t.Context(), notice(), func() error { return no }); !errors.Is(err, no) || len(got) != 0 {
		t.Errorf("%v, %d requests", err, len(got))
	}
}

func TestProblemsDontShowTheURL(t *testing.T) {
	t.Parallel()
	for want, url := range map[string]string{
		"The channel answered 503 Service Unavailable.": hook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }),
		"The channel answered 404 Not Found.":           hook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }),
		"The channel refuses connections.":              "generic+http://" + testdir.Refused(t) + "/hunter2",
		"The channel ended the connection.": hook(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				conn.Close()
			}
		}),
	} {
		err := newSender(t, url).Send(t.Context(), notice(), yes)
		known, ok := errors.AsType[*notify.Error](err)
		if !ok || known.Problem != want || known.Permanent || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, not %s", err, want)
		}
	}
	for _, url := range []string{"", "hunter2", "https://example.org/hunter2", "slack://hunter2", "generic://%zz@hunter2", "telegram://hunter2"} {
		if _, err := channel.New(url); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestHangingChannelIsBounded: what hangs can't be called off, so it must not pile up.
func TestHangingChannelIsBounded(t *testing.T) {
	t.Parallel()
	release, begun := make(chan struct{}), make(chan struct{}, 100)
	s := newSender(t, hook(t, func(http.ResponseWriter, *http.Request) { begun <- struct{}{}; <-release }))
	s.SetPatience(50 * time.Millisecond)
	for range 8 {
		if err := s.Send(t.Context(), notice(), yes); err == nil || err.Error() != "The channel doesn't answer in time." {
			t.Errorf("%v", err)
		}
	}
	if err := s.Send(t.Context(), notice(), yes); err == nil || err.Error() != "The channel hasn't answered for a while." {
		t.Errorf("%v", err)
	}
	await.True(t, "every request that was given up arrives", func() bool { return len(begun) >= 8 })
	if n := len(begun); n != 8 {
		t.Errorf("%d requests", n)
	}
	close(release)
	deadline := time.Now().Add(10 * time.Second)
	for s.Send(t.Context(), notice(), yes) != nil {
		if time.Now().After(deadline) {
			t.Fatal("it doesn't work again")
		}
	}
}
