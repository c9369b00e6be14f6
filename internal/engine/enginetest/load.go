package enginetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"steward/internal/await"
)

// load is writers that insert rows until they are stopped or their server goes
// away, and remember what was acknowledged.
type load struct {
	stop  context.CancelFunc
	group sync.WaitGroup
	mu    sync.Mutex
	acked map[int]bool
}

// perWriter keeps writers' rows apart.
const perWriter = 100_000

// thinking is a writer's pause between rows: while servers restart, those that write
// as fast as they can take the processor from whom the test waits for, and leave it
// a hundred thousand rows to compare. It is longer for those who have written long.
func thinking(rows int) time.Duration {
	return time.Duration(min(5+rows/5, 60)) * time.Millisecond
}

// marker inserts a row that no writer does, another each time.
func (b *Bench) marker() string { return fmt.Sprintf("INSERT INTO kept VALUES (%d)", -b.loads.Add(1)) }

// write starts four writers on the server's table kept (v int PRIMARY KEY). Their rows
// aren't those of any writers before.
func (s *Server) write(t *testing.T) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	round := int(s.Bench.loads.Add(1))
	l := &load{stop: cancel, acked: map[int]bool{}}
	for w := range 4 {
		db := s.DB(t, s.Login())
		must(t, db.PingContext(ctx), "connect a writer")
		l.group.Go(func() {
			defer db.Close()
			for i := range perWriter {
				v := (round*4+w)*perWriter + i
				if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO kept VALUES (%d)", v)); err != nil {
					return
				}
				l.mu.Lock()
				l.acked[v] = true
				l.mu.Unlock()
				time.Sleep(thinking(i))
			}
		})
	}
	t.Cleanup(func() { l.end() })
	return l
}

// count is how many rows are acknowledged so far.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// reach waits until so many rows are acknowledged.
func (l *load) reach(t *testing.T, rows int) {
	t.Helper()
	await.NoError(t, "writers get going", func() error {
		if got := l.count(); got < rows {
			return fmt.Errorf("%d rows acknowledged of %d", got, rows)
		}
		return nil
	})
}

// end stops the writers and returns the acknowledged rows.
func (l *load) end() map[int]bool {
	l.stop()
	l.group.Wait()
	return l.acked
}

// missing counts those of the rows that the server doesn't have.
func (s *Server) missing(t *testing.T, rows map[int]bool) int {
	t.Helper()
	db := s.DB(t, s.Login())
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	found, err := db.QueryContext(ctx, "SELECT v FROM kept")
	must(t, err, "read rows")
	defer found.Close()
	has := map[int]bool{}
	for found.Next() {
		var v int
		must(t, found.Scan(&v), "read row")
		has[v] = true
	}
	must(t, found.Err(), "read rows")
	missing := 0
	for v := range rows {
		if !has[v] {
			missing++
		}
	}
	return missing
}
