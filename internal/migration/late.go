package migration

import "time"

// mostSamples bounds how many are kept: those of an hour.
const mostSamples = 3600

// Late tells for how long something here has lacked what its source has. P is a place in what the source logs.
type Late[P any] struct {
	// Before reports whether one place comes before another.
	Before func(a, b P) bool
	// Whole is when all was here last that the source had.
	Whole time.Time
	// samples are how far the source was, and when, that isn't here yet.
	samples []sample[P]
}

type sample[P any] struct {
	at  time.Time
	end P
}

// Seen takes how far the source is and how far it is here, and returns for how long what is here has lacked something; 0 when it lacks nothing.
func (l *Late[P]) Seen(now time.Time, end, upTo P) time.Duration {
	for len(l.samples) > 0 && !l.Before(upTo, l.samples[0].end) {
		l.Whole, l.samples = l.samples[0].at, l.samples[1:]
	}
	if !l.Before(upTo, end) {
		l.Whole = now
		return 0
	}
	if len(l.samples) < mostSamples {
		l.samples = append(l.samples, sample[P]{now, end})
	}
	return now.Sub(l.Whole)
}
