// Package await lets tests wait for what happens beside them.
package await

import (
	"testing"
	"time"
)

const (
	// patience is long: machines that run tests are busy. It proves nothing about how
	// long something takes.
	patience = 2 * time.Minute
	// longestAtFirst is between two checks: who checks often takes the processor from those that
	// the test waits for. The pauses of who has waited for long become as long as one part of that
	// time, up to longestPause.
	longestAtFirst = 50 * time.Millisecond
	longestPause   = 200 * time.Millisecond
	parts          = 20
	// share of the time is spent in checks, at most, as long as that makes no pause longer than
	// longestForSlow: many a check starts a process.
	share          = 0.1
	longestForSlow = time.Second
)

// True returns once is reports true, and fails the test when that takes too long.
func True(t testing.TB, what string, is func() bool) {
	t.Helper()
	if !comes(is) {
		t.Fatalf("waited %v in vain: %s", patience, what)
	}
}

// NoError returns once check returns no error, and fails the test with check's last
// error when that takes too long.
func NoError(t testing.TB, what string, check func() error) {
	t.Helper()
	var err error
	if !comes(func() bool { err = check(); return err == nil }) {
		t.Fatalf("waited %v in vain: %s: %v", patience, what, err)
	}
}

// comes reports whether a condition comes true in time.
func comes(is func() bool) bool {
	start := time.Now()
	deadline := start.Add(patience)
	for pause := time.Millisecond; ; pause = min(2*pause, max(longestAtFirst, min(time.Since(start)/parts, longestPause))) {
		begun := time.Now()
		if is() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		rest := time.Duration(float64(time.Since(begun)) * (1/share - 1))
		time.Sleep(max(pause, min(rest, longestForSlow)))
	}
}
