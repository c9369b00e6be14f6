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
	// longestPause is between two checks: who checks often takes the processor from
	// those that the test waits for.
	longestPause = 50 * time.Millisecond
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
	deadline := time.Now().Add(patience)
	for pause := time.Millisecond; !is(); pause = min(2*pause, longestPause) {
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
