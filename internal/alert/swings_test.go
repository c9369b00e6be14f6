package alert_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"steward/internal/alert"
	"steward/internal/measure"
)

// swing is a series that goes to and fro between values, each for so long, for so long in all.
func swing(whole time.Duration, parts ...part) (series []float64) {
	for len(series) < int(whole/measure.Every) {
		for _, p := range parts {
			for range max(1, int(p.length/measure.Every)) {
				series = append(series, p.value)
			}
		}
	}
	return series
}

// part is a value and how long it lasts.
type part struct {
	value  float64
	length time.Duration
}

func openings(told []string) int { return strings.Count(strings.Join(told, ""), "+") }

// TestSwings: what crosses the threshold of a default again and again is told of once at most, and what swings between the threshold and where it
// is well again stays open.
func TestSwings(t *testing.T) {
	t.Parallel()
	const night = 12 * time.Hour
	for _, r := range alert.Defaults() {
		c := r.Criteria[0]
		d, measured := measure.Find(c.Metric)
		if !measured || c.Aggregate == alert.Sum {
			continue // below
		}
		sign := 1.0
		if !c.Operator.Upward() {
			sign = -1
		}
		hold := time.Duration(r.Trigger.Occurrences) * r.Trigger.Polling
		bad, well := c.Threshold+sign*max(1, 0.05*c.Threshold), c.Clear-sign*max(1, 0.05*c.Clear)
		justBad, justWell := c.Threshold+sign*0.001*max(1, c.Threshold), c.Clear-sign*0.001*max(1, c.Clear)
		open := swing(2*hold+2*r.Trigger.Polling, part{bad, measure.Every})
		for name, s := range map[string]struct {
			series    []float64
			most      int
			staysOpen bool
		}{
			"with each reading":                {swing(night, part{bad, measure.Every}, part{well, measure.Every}), 0, false},
			"about the threshold":              {swing(night, part{justBad, measure.Every}, part{c.Threshold, 2 * measure.Every}), 0, false},
			"not long enough":                  {swing(night, part{bad, hold - measure.Slice}, part{well, hold - measure.Slice}), 0, false},
			"not long enough, and gaps":        {swing(night, part{bad, hold - r.Trigger.Polling}, part{math.NaN(), hold}, part{bad, measure.Slice}, part{well, hold}), 0, false},
			"not long enough, after it opened": {append(open, swing(night, part{well, hold - measure.Slice}, part{bad, hold - measure.Slice})...), 1, false},
			"well for a moment only":           {append(open, swing(night, part{justWell, measure.Every}, part{bad, 4 * hold})...), 1, true},
			"in between":                       {append(open, swing(night, part{(2*c.Threshold + c.Clear) / 3, 5 * measure.Every}, part{(c.Threshold + 2*c.Clear) / 3, 5 * measure.Every})...), 1, c.Threshold != c.Clear},
		} {
			told := replay(r, d.Metric, s.series)
			if openings(told) > s.most || s.staysOpen && len(told) != 1 {
				t.Errorf("%s swings %s: it opens %d times, at first %v", r.Name, name, openings(told), told[:min(len(told), 4)])
			}
		}
	}
}

// TestSwingsOfRestarts: three within a quarter of an hour are too many, two aren't, and what begins again meanwhile is the same alert.
func TestSwingsOfRestarts(t *testing.T) {
	t.Parallel()
	every := func(d time.Duration) []float64 {
		return swing(12*time.Hour, part{1, measure.Every}, part{math.NaN(), 2 * measure.Every}, part{0, d - 3*measure.Every})
	}
	for d, want := range map[time.Duration]int{time.Minute: 1, 4 * time.Minute: 1, 6 * time.Minute: 1, 8 * time.Minute: 0, 20 * time.Minute: 0} {
		if told := replay(defaultRule(t, alert.RestartLoop), measure.Restarts, every(d)); len(told) != want {
			t.Errorf("a restart every %v: %v", d, told)
		}
	}
}

// TestSwingsOfWhatIsComputed: a forecast about three days, and backups that come somewhat late each day.
func TestSwingsOfWhatIsComputed(t *testing.T) {
	t.Parallel()
	day := (24 * time.Hour).Seconds()
	for _, c := range []struct {
		name   string
		rule   alert.ID
		metric string
		usage  float64
		// of is the value so many seconds after the beginning.
		of   func(at float64) float64
		want int
	}{
		{"a forecast that swings about three days", alert.DiskFullSoon, alert.DiskFullIn, 70, func(at float64) float64 { return (3 + 0.2*math.Sin(at/600)) * day }, 1},
		{"a forecast that comes and goes", alert.DiskFullSoon, alert.DiskFullIn, 70, func(at float64) float64 {
			if int(at/1200)%2 == 0 {
				return math.Inf(1)
			}
			return day
		}, 0},
		{"a disk that is half empty", alert.DiskFullSoon, alert.DiskFullIn, 49, func(float64) float64 { return day }, 0},
		{"a forecast that nobody has", alert.DiskFullSoon, alert.DiskFullIn, 70, func(float64) float64 { return math.NaN() }, 0},
		{"backups every 25 and a half hours", alert.BackupMissing, alert.BackupAge, 10, func(at float64) float64 { return math.Mod(at, 25.5*3600) }, 0},
		{"backups every 27 hours", alert.BackupMissing, alert.BackupAge, 10, func(at float64) float64 { return math.Mod(at, 27*3600) }, 6},
	} {
		const whole = 7 * 24 * time.Hour
		r := defaultRule(t, c.rule)
		h := alert.NewHistory(1, time.Hour)
		points := []measure.Point{measure.At(c.usage), measure.At(c.usage), measure.At(c.usage)}
		var streak alert.Streak
		var told []string
		for after := measure.Slice; after <= whole; after += measure.Slice {
			at := begin.Add(after)
			h.Add(0, measure.DiskUsage, at.Add(-measure.Slice), points)
			if !r.Due(at) {
				continue
			}
			verdict, v := r.Look(h, alert.Computed{c.metric: c.of(after.Seconds())}, at)
			streak = streak.Next(verdict, v)
			switch open := len(told)%2 == 1; {
			case !open && r.Opens(streak):
				told = append(told, "+"+after.String())
			case open && r.Closes(streak):
				told = append(told, "-"+after.String())
			}
		}
		if openings(told) != c.want {
			t.Errorf("%s: it opens %d times, at first %v", c.name, openings(told), told[:min(len(told), 4)])
		}
	}
}
