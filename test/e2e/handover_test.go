package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/monitor"
	"steward/internal/pgtest"
	"steward/test/harness"
)

// webServer notes when each of its paths was asked for.
type webServer struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string][]time.Time
}

func newWebServer(t *testing.T) *webServer {
	v := &webServer{requests: map[string][]time.Time{}}
	v.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.requests[r.URL.Path] = append(v.requests[r.URL.Path], time.Now())
	}))
	t.Cleanup(v.Close)
	return v
}

// since is the fewest requests that any of so many paths has had after a time, and the longest
// that one of them was without any, from its last request before.
func (v *webServer) since(begin time.Time, paths int) (fewest int, longest time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.requests) < paths {
		return 0, 0
	}
	fewest = 1 << 30
	for _, times := range v.requests {
		after := 0
		for i, at := range times {
			if at.Before(begin) {
				continue
			}
			if after++; i > 0 {
				longest = max(longest, at.Sub(times[i-1]))
			}
		}
		fewest = min(fewest, after)
	}
	return fewest, longest
}

// TestStopHandsTheMonitorOverThorough: of two servers on one store, one gets SIGTERM. It
// leaves nothing held behind, and the other checks every service in its next turn.
func TestStopHandsTheMonitorOverThorough(t *testing.T) {
	t.Parallel()
	const services, interval = 60, 3 * time.Second
	url, config := pgtest.MigratedURL(t), harness.WithConfig(fmt.Sprintf("monitor: {interval: %s}\npool: {size: 0}", interval))
	a, b := harness.Prepare(t, config), harness.Prepare(t, config)
	a.Start("--store", url)
	store, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(t.Context())
	read := func(sql string, args ...any) (n int) {
		t.Helper()
		if err := store.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	held := func(by string) int { return read("SELECT count(*) FROM shards WHERE holder = $1", by) }
	var first string
	a.Eventually("watching", func() error {
		return store.QueryRow(t.Context(), "SELECT max(holder) FROM shards GROUP BY holder HAVING count(*) = $1 AND holder <> ''", monitor.Shards).Scan(&first)
	})
	for _, name := range []string{"seal.key", "admin.token"} {
		text, err := os.ReadFile(filepath.Join(a.Data, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(b.Data, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.Start("--store", url)

	site := newWebServer(t)
	for n := range services {
		in := map[string]any{"label": fmt.Sprintf("service-%d", n), "service_type": "url", "address": fmt.Sprintf("%s/%d", site.URL, n), "timeout": 5, "region": "local"}
		if status, body := a.Call("POST", "/v4/managed/services", in, nil); status != http.StatusOK {
			t.Fatal(body)
		}
	}
	begin := time.Now()
	a.Eventually("shared by both", func() error {
		if fewest, _ := site.since(begin, services); fewest < 2 || held(first) != monitor.Shards/2 {
			return fmt.Errorf("%d requests, %d shards", fewest, held(first))
		}
		return nil
	})

	begin = time.Now()
	a.Stop()
	if n := read("SELECT count(*) FROM watchers WHERE id = $1 AND expires > clock_timestamp()", first); n != 0 {
		t.Error("the server that ended still counts as living")
	}
	b.Eventually("checking all", func() error {
		if fewest, _ := site.since(begin, services); fewest < 3 || held(first) != 0 {
			return fmt.Errorf("%d requests, %d shards are left", fewest, held(first))
		}
		return nil
	})
	if _, longest := site.since(begin, services); longest >= 2*interval {
		t.Errorf("a service wasn't checked for %v", longest)
	}
}
