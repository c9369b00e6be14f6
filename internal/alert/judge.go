package alert

import (
	"maps"
	"math"
	"slices"
	"time"

	"steward/internal/measure"
)

// Verdict is what a look finds.
type Verdict int

// The verdicts. Unknown says nothing, for either side; Between is past neither threshold.
const (
	Unknown Verdict = iota
	Well
	Between
	Bad
)

// Look judges a database by a rule at a moment, by what was measured until then and what was computed. It returns the value
// of the first criterion that speaks for the verdict, the worst of all nodes.
func (r Rule) Look(h *History, computed Computed, at time.Time) (Verdict, float64) {
	whole, shown := Bad, unknown
	for i, c := range r.Criteria {
		verdict, v := r.lookAt(c, h, computed, at)
		if i == 0 {
			shown = v
		}
		if verdict == Unknown {
			return Unknown, unknown
		}
		whole = min(whole, verdict)
	}
	return whole, shown
}

func (r Rule) lookAt(c Criterion, h *History, computed Computed, at time.Time) (Verdict, float64) {
	d, measured := measure.Find(c.Metric)
	if !measured {
		v, ok := computed[c.Metric]
		if !ok || math.IsNaN(v) {
			return Unknown, unknown
		}
		return c.verdict(v), v
	}
	worst, shown := Unknown, unknown
	missing := false
	for _, node := range slices.Sorted(maps.Keys(h.nodes)) {
		if len(c.Filters) > 0 && !c.passes(h.labels(node, at)) {
			continue
		}
		v, known := h.nodes[node].value(d.Metric, c.Aggregate, r.Trigger.Period, at)
		verdict := c.verdict(v)
		enough := known*2 >= int(r.Trigger.Period/measure.Every)
		// A sum of what goes wrong is right though much isn't known, as long as it is bad.
		if known == 0 || !enough && !(c.Aggregate == Sum && verdict == Bad) {
			missing = missing || h.nodes[node].expects(d.Metric, at)
			continue
		}
		if verdict > worst || verdict == worst && c.worse(v, shown) {
			worst, shown = verdict, v
		}
	}
	if missing && worst < Bad { // the one that is missing may be what was bad
		return Unknown, unknown
	}
	return worst, shown
}

func (c Criterion) verdict(v float64) Verdict {
	switch {
	case c.breached(v):
		return Bad
	case c.cleared(v):
		return Well
	}
	return Between
}

func (c Criterion) worse(v, than float64) bool {
	if c.Operator.Upward() {
		return v > than
	}
	return v < than
}

// Streak counts looks in a row that found the same.
type Streak struct {
	Bad, Well int
	// Value is what the last of them found.
	Value float64
}

// fewestWell is how many looks it takes to end an alert at least.
const fewestWell = 2

// Next is the streak after another look. One that says nothing begins it anew: what isn't known may have been otherwise.
func (s Streak) Next(v Verdict, value float64) Streak {
	switch v {
	case Bad:
		return Streak{Bad: s.Bad + 1, Value: value}
	case Well:
		return Streak{Well: s.Well + 1, Value: value}
	}
	return Streak{}
}

// Opens and Closes report whether a streak is long enough.
func (r Rule) Opens(s Streak) bool { return s.Bad >= max(1, r.Trigger.Occurrences) }

// Closes reports whether an open alert is over.
func (r Rule) Closes(s Streak) bool { return s.Well >= max(fewestWell, r.Trigger.Occurrences) }

// Due reports whether it is time for a look.
func (r Rule) Due(at time.Time) bool {
	return at.Unix()%int64(max(r.Trigger.Polling, measure.Slice)/time.Second) == 0
}
