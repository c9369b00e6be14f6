//go:build !failpoint

package failpoint

import "time"

// Enabled reports whether this build can be killed at a failpoint.
const Enabled = false

// Here is a no-op in this build.
func Here(string) {}

// Minute is a minute.
func Minute() time.Duration { return time.Minute }

// Readings is 1.
func Readings() int { return 1 }

// Now is the clock.
func Now() time.Time { return time.Now() }
