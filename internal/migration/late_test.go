package migration_test

import (
	"testing"
	"time"

	"steward/internal/migration"
)

// TestLate: who is always a little behind is no later than that, and who starts behind is as late as what is lacking is old.
func TestLate(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	l := migration.Late[int]{Before: func(a, b int) bool { return a < b }, Whole: began.Add(-time.Minute)}
	for second, c := range []struct{ end, upTo, want int }{
		{100, 10, 60}, // as old as what the copy is of
		{200, 50, 61},
		{300, 100, 2}, // what the source had at the first look
		{400, 300, 1},
		{500, 400, 1},
		{500, 500, 0},
		{500, 500, 0},
		{600, 500, 1},
	} {
		if got := l.Seen(began.Add(time.Duration(second)*time.Second), c.end, c.upTo); got != time.Duration(c.want)*time.Second {
			t.Errorf("at second %d it is %v late, want %d s", second, got, c.want)
		}
	}
}
