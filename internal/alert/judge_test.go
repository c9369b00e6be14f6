package alert_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/alert"
	"steward/internal/measure"
)

var begin = time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)

// replay has a rule judge a recorded series, a value each ten seconds on node 0, NaN for none. It returns what
// happened: "+6m0s" for an alert that opened six minutes after the beginning, "-9m0s" for one that closed.
func replay(r alert.Rule, metric measure.Metric, series []float64) (told []string) {
	h := alert.NewHistory(1, time.Hour)
	var streak alert.Streak
	open := false
	const perSlice = int(measure.Slice / measure.Every)
	for i := 0; i+perSlice <= len(series); i += perSlice {
		points := make([]measure.Point, perSlice)
		for n := range points {
			points[n] = measure.At(series[i+n])
		}
		start := begin.Add(time.Duration(i) * measure.Every)
		h.Add(0, metric, start, points)
		end := start.Add(measure.Slice)
		if !r.Due(end) {
			continue
		}
		verdict, v := r.Look(h, nil, end)
		streak = streak.Next(verdict, v)
		switch {
		case !open && r.Opens(streak):
			open = true
			told = append(told, "+"+end.Sub(begin).String())
		case open && r.Closes(streak):
			open = false
			told = append(told, "-"+end.Sub(begin).String())
		}
	}
	return told
}

// minutes is a series of values that last so many minutes each.
func minutes(parts ...[2]float64) (series []float64) {
	for _, p := range parts {
		for range int(p[0] * 6) {
			series = append(series, p[1])
		}
	}
	return series
}

func defaultRule(t *testing.T, id alert.ID) alert.Rule {
	t.Helper()
	r, ok := alert.Default(id)
	if !ok {
		t.Fatalf("no default %d", id)
	}
	return r
}

// TestRecordedSeries: what the defaults make of what was measured.
func TestRecordedSeries(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	for _, c := range []struct {
		name   string
		rule   alert.ID
		metric measure.Metric
		series []float64
		want   string
	}{
		{"fills and is emptied", alert.DiskFilling, measure.DiskUsage, minutes([2]float64{5, 60}, [2]float64{5, 83}, [2]float64{5, 60}), "+7m0s -12m0s"},
		{"a peak of a minute", alert.DiskFilling, measure.DiskUsage, minutes([2]float64{5, 60}, [2]float64{1, 99}, [2]float64{5, 60}), ""},
		{"falls back into the band only", alert.DiskFilling, measure.DiskUsage, minutes([2]float64{5, 83}, [2]float64{60, 77}, [2]float64{5, 83}), "+2m0s"},
		{"nothing known while open", alert.DiskFilling, measure.DiskUsage, minutes([2]float64{5, 83}, [2]float64{120, none}, [2]float64{1, 83}), "+2m0s"},
		{"nothing known before it held", alert.DiskFilling, measure.DiskUsage, minutes([2]float64{1, 83}, [2]float64{10, none}, [2]float64{1, 83}), ""},
		{"a reading lost now and then", alert.ConnectionsNearlyAll, measure.ConnectionUsage, minutes([2]float64{0.5, 96}, [2]float64{0.34, none}, [2]float64{1.5, 96}), "+2m0s"},
		{"96 % of connections", alert.ConnectionsNearlyAll, measure.ConnectionUsage, minutes([2]float64{2, 10}, [2]float64{3, 96}, [2]float64{2, 92}, [2]float64{2, 20}), "+4m0s -9m0s"},
		{"a forgotten transaction", alert.TransactionForgotten, measure.LongestTransaction, minutes([2]float64{3, 3700}, [2]float64{3, 0}), "+2m0s -5m0s"},
		{"a replica that lags", alert.ReplicaLags, measure.ReplicationLag, minutes([2]float64{4, 45}, [2]float64{4, 1}), "+3m0s -7m0s"},
		{"the archive is behind", alert.ArchiveBehind, measure.ArchiveLag, minutes([2]float64{4, 901}, [2]float64{4, 301}, [2]float64{4, 10}), "+3m0s -11m0s"},
		{"no replica confirms", alert.NobodyConfirms, measure.ConfirmingReplicas, minutes([2]float64{4, 2}, [2]float64{2, 0}, [2]float64{4, 1}), "+6m0s -8m0s"},
		{"one confirms still", alert.NobodyConfirms, measure.ConfirmingReplicas, minutes([2]float64{30, 1}), ""},
		{"two restarts", alert.RestartLoop, measure.Restarts, append(restarts(2), minutes([2]float64{20, 0})...), ""},
		{"restarts again and again", alert.RestartLoop, measure.Restarts, append(restarts(3), minutes([2]float64{30, 0})...), "+2m0s -17m0s"},
	} {
		r := defaultRule(t, c.rule)
		if got := strings.Join(replay(r, c.metric, c.series), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// restarts are so many, half a minute apart, with the server down in between.
func restarts(n int) (series []float64) {
	for range n {
		series = append(series, 1, math.NaN(), math.NaN())
	}
	return series
}

// TestNoFlapping: an alert opens only after what is wrong has held, closes only after it has been well for as long, and a
// series that stays within the band between the thresholds changes nothing.
func TestNoFlapping(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := alert.Defaults()
		r := all[rapid.IntRange(0, len(all)-1).Draw(t, "rule")]
		d, measured := measure.Find(r.Criteria[0].Metric)
		if !measured || len(r.Criteria) > 1 || r.Criteria[0].Aggregate == alert.Sum {
			return
		}
		c := r.Criteria[0]
		bad, well := c.Threshold*1.1+1, c.Clear*0.9-1
		if !c.Operator.Upward() {
			bad, well = c.Threshold*0.9-1, c.Clear*1.1+1
		}
		low, high := min(c.Threshold, c.Clear), max(c.Threshold, c.Clear)
		value := rapid.OneOf(rapid.Just(bad), rapid.Just(well), rapid.Just(math.NaN()), rapid.Float64Range(low, high))
		var series []float64
		for range rapid.IntRange(1, 12).Draw(t, "parts") {
			v, n := value.Draw(t, "value"), rapid.IntRange(1, 200).Draw(t, "steps")
			for range n {
				series = append(series, v)
			}
		}
		told := replay(r, d.Metric, series)
		hold := time.Duration(r.Trigger.Occurrences) * r.Trigger.Polling
		var last time.Duration
		for i, one := range told {
			if wantOpen := i%2 == 0; (one[0] == '+') != wantOpen {
				t.Fatalf("%v: not in turn", told)
			}
			at, err := time.ParseDuration(one[1:])
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && at-last < hold {
				t.Fatalf("%v: %s after %v", told, one, at-last)
			}
			last = at
			for step := int((at-hold)/measure.Every) + 1; step < int(at/measure.Every); step++ {
				v := series[step]
				if one[0] == '+' && !math.IsNaN(v) && !(c.Operator == alert.Above && v > c.Threshold || c.Operator == alert.Below && v < c.Threshold) {
					t.Fatalf("%v: %v %v before it opened", told, v, at-time.Duration(step)*measure.Every)
				}
			}
		}
		band := make([]float64, 2000)
		inside := rapid.Float64Range(low, high)
		for i := range band {
			band[i] = inside.Draw(t, "within")
			if c.Operator == alert.Above && band[i] > c.Threshold || c.Operator == alert.Below && band[i] < c.Threshold {
				band[i] = c.Threshold
			}
			if i == 100 {
				break
			}
		}
		for i := 101; i < len(band); i++ {
			band[i] = band[i%101]
		}
		opened := append(minutes([2]float64{60, bad}), band...)
		if told := replay(r, d.Metric, opened); low < high && len(told) > 1 && c.Clear != c.Threshold && !touches(band, c.Clear) {
			t.Fatalf("%s oscillates within its band: %v", r.Name, told)
		}
		if told := replay(r, d.Metric, band); len(told) > 0 {
			t.Fatalf("%s opens within its band: %v", r.Name, told)
		}
	})
}

func touches(band []float64, v float64) bool {
	for _, one := range band {
		if math.Abs(one-v) <= math.Abs(v)/1e6 { // kept with fewer digits
			return true
		}
	}
	return false
}

// TestWorstNodeCounts: one bad node is enough, all must be well for the end, and one of which nothing is known any
// more keeps it open.
func TestWorstNodeCounts(t *testing.T) {
	t.Parallel()
	r := defaultRule(t, alert.ReplicaLags)
	look := func(parts map[int]float64, filters ...alert.Filter) alert.Verdict {
		r := r
		r.Criteria = []alert.Criterion{r.Criteria[0]}
		r.Criteria[0].Filters = filters
		h := alert.NewHistory(7, 15*time.Minute)
		points := make([]measure.Point, 6)
		for node, v := range parts {
			for i := range points {
				points[i] = measure.At(1)
			}
			h.Add(node, measure.ReplicationLag, begin.Add(-time.Minute), points)
			for i := range points {
				points[i] = measure.At(v)
			}
			h.Add(node, measure.ReplicationLag, begin, points)
			h.Add(node, measure.Primary, begin, []measure.Point{measure.At(0), measure.At(0), measure.At(0), measure.At(0), measure.At(0), measure.At(map[bool]float64{true: 1}[node == 0])})
		}
		v, _ := r.Look(h, nil, begin.Add(time.Minute))
		return v
	}
	for _, c := range []struct {
		nodes   map[int]float64
		filters []alert.Filter
		want    alert.Verdict
	}{
		{map[int]float64{1: 1, 2: 40}, nil, alert.Bad},
		{map[int]float64{1: 1, 2: 20}, nil, alert.Between},
		{map[int]float64{1: 1, 2: 2}, nil, alert.Well},
		{map[int]float64{1: 1, 2: math.NaN()}, nil, alert.Unknown},
		{map[int]float64{1: 40, 2: math.NaN()}, nil, alert.Bad},
		{nil, nil, alert.Unknown},
		{map[int]float64{1: 1, 2: 40}, []alert.Filter{{alert.ByNode, "eq", "7-1"}}, alert.Well},
		{map[int]float64{0: 40, 2: 1}, []alert.Filter{{alert.ByRole, "eq", "secondary"}}, alert.Well},
		{map[int]float64{0: 40, 2: 1}, []alert.Filter{{alert.ByRole, "in", "primary,secondary"}}, alert.Bad},
	} {
		if got := look(c.nodes, c.filters...); got != c.want {
			t.Errorf("%v %v: %v, want %v", c.nodes, c.filters, got, c.want)
		}
	}
}

// TestRolesChange: what a node told in another role isn't missed in the one that it has now.
func TestRolesChange(t *testing.T) {
	t.Parallel()
	none := math.NaN()
	lagged := []float64{40, 40, 40, 40, 40, 40}
	for _, c := range []struct {
		name string
		// lag and primary are what node 1 told, a value each ten seconds; the replica 2 is well. The look is at their end.
		lag, primary []float64
		want         alert.Verdict
	}{
		{"the replica that lagged is the primary", append(lagged, minutes([2]float64{1, none})...), append(minutes([2]float64{1, 0}), minutes([2]float64{1, 1})...), alert.Well},
		{"it was promoted while its server was away", append(lagged, minutes([2]float64{2, none})...), append(minutes([2]float64{1, 0}, [2]float64{0.5, none}), minutes([2]float64{1.5, 1})...), alert.Well},
		{"its server is away", append(lagged, minutes([2]float64{1, none})...), append(minutes([2]float64{1, 0}), minutes([2]float64{1, none})...), alert.Unknown},
		{"a replica that doesn't tell", append(lagged, minutes([2]float64{1, none})...), minutes([2]float64{2, 0}), alert.Unknown},
		{
			"it was the primary, and doesn't tell since it told as a replica", append(minutes([2]float64{1, none}), append(lagged, minutes([2]float64{1, none})...)...),
			append(minutes([2]float64{1, 1}), minutes([2]float64{2, 0})...), alert.Unknown,
		},
	} {
		r := defaultRule(t, alert.ReplicaLags)
		h := alert.NewHistory(1, 15*time.Minute)
		add := func(node int, metric measure.Metric, series []float64) {
			points := make([]measure.Point, len(series))
			for i, v := range series {
				points[i] = measure.At(v)
			}
			h.Add(node, metric, begin, points)
		}
		add(1, measure.ReplicationLag, c.lag)
		add(1, measure.Primary, c.primary)
		add(2, measure.ReplicationLag, minutes([2]float64{float64(len(c.lag)) / 6, 0}))
		add(2, measure.Primary, minutes([2]float64{float64(len(c.lag)) / 6, 0}))
		if got, _ := r.Look(h, nil, begin.Add(time.Duration(len(c.lag))*measure.Every)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestForecast: what a disk's last day says of the next ones.
func TestForecast(t *testing.T) {
	t.Parallel()
	const step = 5 * time.Minute
	series := func(hours int, of func(hour float64) float64) []measure.Point {
		points := make([]measure.Point, 24*12)
		for i := range points {
			points[i] = measure.Gap()
			if i >= len(points)-hours*12 {
				points[i] = measure.At(of(float64(i) / 12))
			}
		}
		return points
	}
	days := func(seconds float64) string {
		if math.IsNaN(seconds) || math.IsInf(seconds, 1) {
			return fmt.Sprint(seconds)
		}
		return fmt.Sprintf("%.1f", seconds/86400)
	}
	for _, c := range []struct {
		name  string
		hours int
		of    func(hour float64) float64
		want  string
	}{
		{"24 % a day", 24, func(h float64) float64 { return 40 + h }, "1.5"},
		{"24 % a day, up and down", 24, func(h float64) float64 { return 40 + h + 3*math.Sin(h*20) }, "1.5"},
		{"still", 24, func(float64) float64 { return 70 }, "+Inf"},
		{"shrinks", 24, func(h float64) float64 { return 70 - h/4 }, "+Inf"},
		{"much at once, then still", 24, func(h float64) float64 { return map[bool]float64{true: 20, false: 70}[h < 12] }, "+Inf"},
		{"known since two hours", 2, func(h float64) float64 { return 40 + h }, "NaN"},
		{"known since six", 6, func(h float64) float64 { return 40 + h }, "1.5"},
		{"full", 24, func(h float64) float64 { return 76 + h }, "0.0"},
	} {
		if got := days(alert.FullIn(series(c.hours, c.of), step)); got != c.want {
			t.Errorf("%s: %s days, want %s", c.name, got, c.want)
		}
	}
}

// TestDefaultsAreByNumber: their numbers are kept in the store, and each says what to do.
func TestDefaultsAreByNumber(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for i, r := range alert.Defaults() {
		if r.ID != alert.ID(i+1) || names[r.Name] || r.Name == "" || r.Label == "" || r.Advice == "" {
			t.Errorf("%d: %+v", i, r)
		}
		names[r.Name] = true
		if text := r.Sentence(93.4); strings.Contains(text, "%!") || strings.HasSuffix(text, " ") {
			t.Errorf("%s: %s", r.Name, text)
		}
		for _, c := range r.Criteria {
			if _, ok := measure.Find(c.Metric); !ok && c.Metric != alert.BackupAge && c.Metric != alert.DiskFullIn {
				t.Errorf("%s asks for %s", r.Name, c.Metric)
			}
		}
		if r.Under != 0 {
			if over, ok := alert.Default(r.Under); !ok || over.Severity > r.Severity {
				t.Errorf("%s is under %+v", r.Name, over)
			}
		}
	}
}

// TestProvenWithin: databases are told of by the number that the alert's label has.
func TestProvenWithin(t *testing.T) {
	t.Parallel()
	r, _ := alert.Default(alert.BackupMissing)
	if want := fmt.Sprintf("%g hours", alert.ProvenWithin().Hours()); !strings.HasSuffix(r.Label, want) {
		t.Errorf("%q, but %s", r.Label, want)
	}
}

// TestDefaultsAreDocumented: the table for people has each, with its severity, its thresholds and for how long it has to hold.
func TestDefaultsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alert.Defaults() {
		c := r.Criteria[0]
		row := fmt.Sprintf("| %d | %s | %s | ", r.ID, r.Name, r.Severity)
		hold := " | " + shown(measure.Seconds, (time.Duration(r.Trigger.Occurrences)*r.Trigger.Polling).Seconds()) + " | "
		d, measured := measure.Find(c.Metric)
		switch {
		case !measured: // told in words
		case c.Aggregate == alert.Sum:
			hold = " | at once | "
		case c.Operator == alert.Above:
			row += fmt.Sprintf("`%s` > %s%s≤ %s |\n", d.Name, shown(d.Unit, c.Threshold), hold, shown(d.Unit, c.Clear))
		default:
			row += fmt.Sprintf("`%s` < %s%s≥ %s |\n", d.Name, shown(d.Unit, c.Threshold), hold, shown(d.Unit, c.Clear))
		}
		_, found, ok := strings.Cut(string(text), row)
		if line, _, _ := strings.Cut(found, "\n"); !ok || !strings.HasSuffix(row, "\n") && !strings.Contains(line, hold) {
			t.Errorf("docs/alerts.md has no %q, or not %q", row, hold)
		}
	}
}

// shown is a value as the table has it.
func shown(unit measure.Unit, v float64) string {
	switch {
	case unit == measure.Percent:
		return fmt.Sprintf("%g %%", v)
	case unit != measure.Seconds:
		return fmt.Sprintf("%g", v)
	}
	for _, u := range []struct {
		name   string
		length float64
	}{{"days", 86400}, {"h", 3600}, {"min", 60}} {
		if n := v / u.length; n >= 1 && n == math.Trunc(n) {
			return fmt.Sprintf("%g %s", n, u.name)
		}
	}
	return fmt.Sprintf("%g s", v)
}
