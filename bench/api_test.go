package bench

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"steward/test/harness"
)

// load is how long each side is driven, and clients how many do it.
const (
	load    = 4 * time.Second
	clients = 8
)

// BenchmarkGet compares an authenticated GET of one database with a bare
// net/http handler that does one SELECT by pgx on the same store.
func BenchmarkGet(b *testing.B) {
	s := harness.New(b)
	d := s.CreateActive(harness.Small("bench-get", "postgresql/15"))
	bare := bareHandler(b, s, d)
	var bareRate, ours []float64
	var p99 time.Duration
	for range 3 {
		rate, _ := drive(b, bare, "", d.Label)
		bareRate = append(bareRate, rate)
		rate, slowest := drive(b, s.URL+d.Path(), s.Token, d.Label)
		ours = append(ours, rate)
		p99 = slowest
	}
	report(b, fmt.Sprintf("GET a database (%.0f/s, p99 %v) / bare (%.0f/s)", middle(ours), p99.Round(10*time.Microsecond), middle(bareRate)),
		middle(ours)/middle(bareRate), "ratio-rps", "≥ 0.4")
}

func bareHandler(b *testing.B, s *harness.Server, d harness.Database) string {
	pool, err := pgxpool.New(b.Context(), s.StoreURL())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var label string
		if err := pool.QueryRow(r.Context(), "SELECT label FROM clusters WHERE id = $1", d.ID).Scan(&label); err != nil {
			http.Error(w, err.Error(), 500)
			return
		}
		fmt.Fprintf(w, `{"label":%q}`, label)
	})}
	go server.Serve(l)
	b.Cleanup(func() { server.Close() })
	return "http://" + l.Addr().String() + "/"
}

// drive sends requests as fast as they are answered and returns the rate and
// the 99th percentile of the times. Each answer has the label.
func drive(b *testing.B, url, token, label string) (perSecond float64, p99 time.Duration) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var count atomic.Int64
	var all []time.Duration
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(load)
	for range clients {
		wg.Go(func() {
			var took []time.Duration
			for time.Now().Before(end) {
				begun := time.Now()
				req, _ := http.NewRequest("GET", url, nil)
				if token != "" {
					req.Header.Set("Authorization", "Bearer "+token)
				}
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != 200 || !bytes.Contains(body, []byte(label)) {
					b.Errorf("answered %d %s, %v", resp.StatusCode, body, err)
					return
				}
				count.Add(1)
				took = append(took, time.Since(begun))
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	wg.Wait()
	if b.Failed() || len(all) == 0 {
		b.Fatalf("%d were answered before one failed", len(all))
	}
	return float64(count.Load()) / load.Seconds(), quantile(all, .99)
}

func middle(values []float64) float64 {
	var d []time.Duration
	for _, v := range values {
		d = append(d, time.Duration(v*1e6))
	}
	return float64(quantile(d, .5)) / 1e6
}

// BenchmarkIdle measures steward with its store and ten idle databases.
func BenchmarkIdle(b *testing.B) {
	s := harness.New(b)
	var databases []harness.Database
	for i := range 10 {
		databases = append(databases, s.CreateActive(harness.Small(fmt.Sprintf("idle-%d", i), []string{"postgresql/15", "mysql/10.11"}[i%2])))
	}
	time.Sleep(10 * time.Second) // let pools refill and caches settle
	const window = 30 * time.Second
	pids := []int{s.PID()}
	for pid, line := range s.Processes() {
		if strings.Contains(line, s.Data+"/store") {
			pids = append(pids, pid)
		}
	}
	if len(pids) == 1 {
		b.Fatal("no process of the store was found")
	}
	storeTree := harness.Descendants(pids[1:]...)
	before := harness.CPUSeconds(append(storeTree, s.PID())...)
	time.Sleep(window)
	used := harness.CPUSeconds(append(harness.Descendants(pids[1:]...), s.PID())...) - before
	for _, d := range databases { // idle is what serves, not what has ended
		if err := selectOne(d, s.Credentials(d)); err != nil {
			b.Fatal(err)
		}
	}
	report(b, "idle, ten databases: steward and store", 100*used/window.Seconds(), "percent-of-a-core", "< 2")
	report(b, "resident memory of steward", float64(harness.ResidentBytes(s.PID()))/(1<<20), "MiB", "< 80")
}
