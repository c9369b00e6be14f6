package spell_test

import (
	"testing"
	"time"

	"steward/internal/spell"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0 ms", 300 * time.Millisecond: "300 ms", time.Second: "a second", 1400 * time.Millisecond: "1400 ms", 10 * time.Second: "10 seconds",
		time.Minute: "a minute", 90 * time.Second: "90 seconds", 10 * time.Minute: "10 minutes", time.Hour: "an hour", 90 * time.Minute: "90 minutes",
		2 * time.Hour: "2 hours", 24 * time.Hour: "a day", 36 * time.Hour: "36 hours", 14 * 24 * time.Hour: "14 days",
	} {
		if got := spell.Duration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
