package bench

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/test/harness"
)

// BenchmarkListeners has 1,000 follow events, and measures how long it takes until all of them have one, beside how long
// one alone waits, and what they cost in memory.
func BenchmarkListeners(b *testing.B) {
	const many, rounds = 1000, 10
	s := harness.New(b)
	store, err := pgx.Connect(b.Context(), s.StoreURL())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close(b.Context())
	var account int64
	if err := store.QueryRow(b.Context(), "SELECT min(id) FROM accounts").Scan(&account); err != nil {
		b.Fatal(err)
	}
	happen := func() {
		if _, err := store.Exec(b.Context(), `INSERT INTO operations (account_id, cluster_id, entity_type, entity_id, label, engine, action, status, username, params, percent, message, created, started, finished)
			VALUES ($1, 0, 'ticket', 1, 'bench', '', 'ticket_update', 'notification', '', '{}', 100, '', now(), now(), now())`, account); err != nil {
			b.Fatal(err)
		}
	}
	heard := make(chan struct{}, many)
	var open sync.WaitGroup
	var listening atomic.Int64
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: many + 1}}
	listen := func() {
		open.Add(1)
		go func() {
			r, _ := http.NewRequestWithContext(b.Context(), http.MethodGet, s.URL+"/v4/account/events/stream", nil)
			r.Header.Set("Authorization", "Bearer "+s.Token)
			answer, err := client.Do(r)
			if err != nil || answer.StatusCode != http.StatusOK {
				b.Errorf("follow: %v %v", answer, err)
				open.Done()
				return
			}
			defer answer.Body.Close()
			lines := bufio.NewScanner(answer.Body)
			for lines.Scan() {
				if lines.Text() == "" && listening.Add(1) > 0 {
					open.Done()
					break
				}
			}
			for lines.Scan() {
				if strings.HasPrefix(lines.Text(), "data: ") {
					heard <- struct{}{}
				}
			}
		}()
	}
	round := func(n int) time.Duration {
		began := time.Now()
		happen()
		for range n {
			select {
			case <-heard:
			case <-time.After(time.Minute):
				b.Fatal("not all have heard")
			}
		}
		return time.Since(began)
	}
	before := resident(b, s.PID())
	listen()
	open.Wait()
	var alone, all []time.Duration
	for range rounds {
		alone = append(alone, round(1))
	}
	for range many - 1 {
		listen()
	}
	open.Wait()
	for range rounds {
		all = append(all, round(many))
	}
	memory := float64(resident(b, s.PID())-before) / (1 << 20)
	report(b, fmt.Sprintf("an event at all of %d listeners (median %v, worst %v) / at one (%v)", many, quantile(all, 0.5).Round(time.Millisecond), quantile(all, 1).Round(time.Millisecond),
		quantile(alone, 0.5).Round(100*time.Microsecond)), quantile(all, 1).Seconds(), "s-worst", "≤ 1")
	report(b, fmt.Sprintf("memory of %d listeners", many), memory, "MiB", "< 64")
}

// resident is the memory of a process.
func resident(b *testing.B, pid int) int64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
