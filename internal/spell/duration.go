// Package spell writes for people.
package spell

import (
	"math"
	"strconv"
	"time"
)

// Duration is how long something takes, in the unit that suits it: "an hour", "90 minutes", "3 days".
func Duration(d time.Duration) string {
	for _, u := range []struct {
		one, many string
		length    time.Duration
	}{{"a day", "days", 24 * time.Hour}, {"an hour", "hours", time.Hour}, {"a minute", "minutes", time.Minute}, {"a second", "seconds", time.Second}} {
		switch n := d.Seconds() / u.length.Seconds(); {
		case d == u.length:
			return u.one
		case n >= 2:
			return strconv.FormatFloat(math.Round(n), 'f', 0, 64) + " " + u.many
		}
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
}
