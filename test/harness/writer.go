package harness

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/await"
)

// pauseOfWriter is how long a Writer rests after each row: full speed would cost the
// servers most of a core for as long as a test waits, and show no more.
const pauseOfWriter = 20 * time.Millisecond

// Writer writes all the time and remembers what was acknowledged.
type Writer struct {
	t     testing.TB
	s     *Server
	d     Database
	creds Credentials
	stop  context.CancelFunc
	ended sync.WaitGroup
	acked []int
	count atomic.Int32 // of those
}

// NewWriter makes a table in the database and begins to write to it.
func NewWriter(t testing.TB, s *Server, d Database) *Writer {
	t.Helper()
	w := &Writer{t: t, s: s, d: d, creds: s.Credentials(d)}
	if _, err := s.MustConnect(d, w.creds).ExecContext(t.Context(), "CREATE TABLE kept (n int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	t.Cleanup(stop)
	w.ended.Go(func() { w.write(ctx) })
	return w
}

func (w *Writer) write(ctx context.Context) {
	var db *sql.DB
	defer func() {
		if db != nil {
			db.Close()
		}
	}()
	for n := 0; ctx.Err() == nil; n++ {
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		var err error
		if db == nil {
			db, err = Connect(short, w.d, w.creds, "")
		}
		if err == nil {
			_, err = db.ExecContext(short, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n))
		}
		cancel()
		switch {
		case err == nil:
			w.acked = append(w.acked, n)
			w.count.Add(1)
		case db != nil: // what became of the row isn't known
			db.Close()
			db = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(pauseOfWriter):
		}
	}
}

// StopAndCheck ends the writing, once there are rows enough to show anything, and demands
// that every acknowledged row is there.
func (w *Writer) StopAndCheck() {
	w.t.Helper()
	await.True(w.t, "a hundred rows are acknowledged", func() bool { return w.count.Load() >= 100 })
	w.stop()
	w.ended.Wait()
	db := w.s.MustConnect(w.d, w.creds)
	rows, err := db.QueryContext(w.t.Context(), "SELECT n FROM kept")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	there := map[int]bool{}
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			w.t.Fatal(err)
		}
		there[n] = true
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	for _, n := range w.acked {
		if !there[n] {
			w.t.Errorf("row %d was acknowledged and is lost", n)
		}
	}
	w.t.Logf("%d rows were acknowledged", len(w.acked))
}
