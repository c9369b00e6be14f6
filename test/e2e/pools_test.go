package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/await"
	"steward/test/harness"
)

// TestPoolsThorough: pools before three nodes, which outlive a restore, and end with the database. TestUpgradeThorough has them before one.
func TestPoolsThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, ofPostgreSQL)
	spec := harness.Small("pooled", postgresql)
	spec["cluster_size"] = 3
	d := pools(t, s, s.CreateActive(spec))
	poolsOutliveARestore(t, s, d, s.PoolPort(d), s.Credentials(d))
	if status, body := s.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Fatal(body)
	}
	noPoolIsLeft(t, s)
}

// noPoolIsLeft waits until nothing is left of databases that were deleted.
func noPoolIsLeft(t *testing.T, s *harness.Server) {
	t.Helper()
	s.Eventually("nothing left", func() error {
		if err := s.Leftovers(); err != nil {
			return err
		}
		for pid, line := range s.Processes() {
			if strings.Contains(line, "pgbouncer") {
				return fmt.Errorf("process %d remains: %s", pid, line)
			}
		}
		return nil
	})
}

// pools makes pools of a database by the command line, of which app is left; nobody who uses one notices a resize, a restart or a switchover.
func pools(t *testing.T, s *harness.Server, d harness.Database) harness.Database {
	t.Helper()
	c := s.Credentials(d)
	run := func(args ...string) string {
		t.Helper()
		out, err := s.Command(args...)
		if err != nil {
			t.Fatalf("steward %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	if out := run("db", "pool", "create", d.Label, "app", "--size", "4"); !strings.Contains(out, "app") || !strings.Contains(out, "transaction") {
		t.Errorf("db pool create printed %s", out)
	}
	run("db", "pool", "create", d.Label, "other", "--mode", "session", "--size", "2", "--json")
	run("db", "pool", "update", d.Label, "other", "--size", "3")
	if out := run("db", "pool", "update", d.Label, "other", "--user", "dbadmin"); !strings.Contains(out, "dbadmin") {
		t.Errorf("db pool update printed %s", out)
	}
	if out := run("db", "pool", "update", d.Label, "other", "--anybody"); !strings.Contains(out, "all users") {
		t.Errorf("db pool update printed %s", out)
	}
	out := run("db", "pool", "list", d.Label, "--json")
	var pools []struct {
		Label, Database, Mode string
		Size                  int
		Username              *string
	}
	if err := json.Unmarshal([]byte(out), &pools); err != nil || len(pools) != 2 || pools[1].Label != "other" || pools[1].Size != 3 || pools[0].Database != "defaultdb" {
		t.Errorf("db pool list --json printed %s: %v", out, err)
	}
	if out, err := s.Command("db", "pool", "create", d.Label, "big", "--size", "1000"); err == nil || !strings.Contains(out, "may add up to") {
		t.Errorf("a pool that is too large: %v %s", err, out)
	}
	d = s.AwaitStatus(d, "active")
	port := s.PoolPort(d)
	if port == 0 || port == d.Port {
		t.Fatalf("pools are at port %d", port)
	}

	b := useBusily(t, d, port, c)
	changes := []func() (int, string){
		func() (int, string) { return s.Call("PUT", d.Path(), map[string]any{"type": "g6-standard-1"}, nil) },
		func() (int, string) { return s.Call("POST", d.Path()+"/restart", nil, nil) },
	}
	if d.ClusterSize > 1 {
		changes = append(changes, func() (int, string) { return s.Call("POST", d.Path()+"/switchover", nil, nil) })
	}
	for _, change := range changes {
		b.progress()
		if status, body := change(); status != 200 {
			t.Fatal(body)
		}
		s.AwaitStatus(d, "active")
	}
	b.progress()
	b.end()

	s.Call("POST", d.Path()+"/suspend", nil, nil)
	s.AwaitStatus(d, "suspended")
	if conn, err := harness.ConnectPool(timeout(t, 10*time.Second), d, port, c, "app"); err == nil {
		conn.Close(t.Context())
		t.Error("a suspended database's pool lets somebody in")
	}
	s.Call("POST", d.Path()+"/resume", nil, nil)
	s.AwaitStatus(d, "active")
	s.Eventually("a pool again", func() error { return usePool(t, d, port, c, "app") })
	run("db", "pool", "delete", d.Label, "other")
	if err := usePool(t, d, port, c, "other"); err == nil {
		t.Error("a pool that was deleted lets somebody in")
	}
	if err := usePool(t, d, port, c, "app"); err != nil {
		t.Error(err)
	}
	return s.AwaitStatus(d, "active")
}

// poolsOutliveARestore has a pool lead to what was restored, and to what was there before once that is undone. A fork has none.
func poolsOutliveARestore(t *testing.T, s *harness.Server, d harness.Database, port int, c harness.Credentials) {
	t.Helper()
	taken := s.Snapshot(d, "before", "primary")
	write := func() {
		ctx := timeout(t, 10*time.Second)
		conn, err := harness.ConnectPool(ctx, d, port, c, "app")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "CREATE TABLE later (n int)"); err != nil {
			t.Fatal(err)
		}
	}
	// has returns an error while a pool doesn't lead to data that have the table, or haven't.
	has := func(want bool) func() error {
		return func() error {
			ctx := timeout(t, 10*time.Second)
			conn, err := harness.ConnectPool(ctx, d, port, c, "app")
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			var there bool
			if err := conn.QueryRow(ctx, "SELECT to_regclass('later') IS NOT NULL").Scan(&there); err != nil || there != want {
				return fmt.Errorf("the table is there: %v, %w", there, err)
			}
			return nil
		}
	}
	write()
	s.Restore(d, taken)
	s.Eventually("a pool before what was restored", has(false))
	if status, body := s.Call("POST", d.Path()+"/restore/undo", nil, nil); status != 200 {
		t.Fatal(body)
	}
	s.AwaitStatus(d, "active")
	s.Eventually("a pool before what there was", has(true))

	spec := harness.Small("forked", postgresql)
	spec["fork"] = map[string]any{"source": d.ID}
	fork := s.CreateActive(spec)
	var pools struct{ Results int }
	if status, body := s.Call("GET", fork.Path()+"/connection-pools", nil, &pools); status != 200 || pools.Results != 0 || s.PoolPort(fork) != 0 {
		t.Errorf("pools of a fork: %d %s, port %d", status, body, s.PoolPort(fork))
	}
	if status, body := s.Call("DELETE", fork.Path(), nil, nil); status != 200 {
		t.Fatal(body)
	}
}

// usePool connects to a pool and asks something.
func usePool(t *testing.T, d harness.Database, port int, c harness.Credentials, label string) error {
	t.Helper()
	ctx := timeout(t, 10*time.Second)
	conn, err := harness.ConnectPool(ctx, d, port, c, label)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "SELECT 1")
	return err
}

// busyPool are clients of a pool that write all the time.
type busyPool struct {
	t      *testing.T
	stop   chan struct{}
	work   sync.WaitGroup
	done   atomic.Int64
	mu     sync.Mutex
	failed []string
}

func useBusily(t *testing.T, d harness.Database, port int, c harness.Credentials) *busyPool {
	t.Helper()
	b := &busyPool{t: t, stop: make(chan struct{})}
	for n := range 6 {
		conn, err := harness.ConnectPool(t.Context(), d, port, c, "app")
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS written (n int)"); err != nil {
				t.Fatal(err)
			}
		}
		b.work.Go(func() { b.write(conn) })
	}
	return b
}

func (b *busyPool) write(conn *pgx.Conn) {
	ctx := context.Background()
	defer conn.Close(ctx)
	for {
		select {
		case <-b.stop:
			return
		case <-time.After(30 * time.Millisecond): // six at full speed would keep the processor busy, and show no more
		}
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO written VALUES (1)")
			return err
		})
		if err != nil {
			b.mu.Lock()
			b.failed = append(b.failed, err.Error())
			b.mu.Unlock()
			return
		}
		b.done.Add(1)
	}
}

// progress waits until they have written some more.
func (b *busyPool) progress() {
	b.t.Helper()
	before := b.done.Load()
	await.True(b.t, "transactions to go on", func() bool { return b.done.Load() >= before+20 })
}

// end demands that no statement failed.
func (b *busyPool) end() {
	b.t.Helper()
	close(b.stop)
	b.work.Wait()
	if b.failed = slices.Compact(b.failed); len(b.failed) > 0 {
		b.t.Errorf("statements of clients of a pool failed: %v", b.failed)
	}
	b.t.Logf("%d transactions", b.done.Load())
}
