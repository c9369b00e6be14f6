package alert

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/measure"
)

// Bounds of accounts' own rules (docs/alerts.md).
const (
	MostRules       = 100
	mostLabel       = 100
	mostDescription = 500
	mostCriteria    = 5
	mostFilters     = 5
	mostValue       = 100
	mostOccurrences = 30
	mostNamed       = 100
	// band is how far from the threshold a rule of one's own is over again, as a part of it.
	band = 0.05
)

// Lengths are what periods and polling intervals can be.
var Lengths = []time.Duration{
	30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
}

// Operators of criteria and of filters, and what can be filtered by.
var (
	Operators       = []Operator{Above, AtLeast, Below, AtMost, Equal}
	Aggregates      = []Aggregate{Average, Highest, Lowest, Sum}
	FilterOperators = []string{"eq", "neq", "startswith", "endswith", "in"}
	Dimensions      = []string{ByRole, ByNode, ByEntity}
	Scopes          = []Scope{OfEntities, OfAccount, OfRegions}
)

// Validate finds everything that is wrong with a rule of an account, by itself.
func (r Rule) Validate() fault.Faults {
	faults := text("label", r.Label, 1, mostLabel)
	faults = append(faults, text("description", r.Description, 0, mostDescription)...)
	if r.Severity < Severe || r.Severity > Info {
		faults = append(faults, fault.Range("severity", int(Severe), int(Info)))
	}
	faults = append(faults, r.Trigger.validate()...)
	if n := len(r.Criteria); n < 1 || n > mostCriteria {
		faults.Add("rule_criteria.rules", "Must have 1-%d items", mostCriteria)
	}
	for _, c := range r.Criteria {
		faults = append(faults, c.validate("rule_criteria.rules")...)
	}
	if !slices.Contains(Scopes, r.Scope) {
		faults = append(faults, fault.OneOf("scope", Scopes...))
	}
	if len(r.Entities) > 0 && r.Scope != OfEntities {
		faults.Add("entity_ids", "Must be empty unless scope is entity")
	}
	if len(r.Regions) > 0 && r.Scope != OfRegions {
		faults.Add("regions", "Must be empty unless scope is region")
	}
	if len(r.Regions) == 0 && r.Scope == OfRegions {
		faults.Add("regions", "Must have an item at least when scope is region")
	}
	for field, n := range map[string]int{"entity_ids": len(r.Entities), "regions": len(r.Regions), "channel_ids": len(r.Channels)} {
		if n > mostNamed {
			faults.Add(field, "Must have at most %d items", mostNamed)
		}
	}
	return faults
}

// text checks one line for people.
func text(field, text string, least, most int) fault.Faults {
	if n := utf8.RuneCountInString(text); n < least || n > most {
		return fault.Faults{fault.Length(field, least, most)}
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return fault.Faults{fault.NewInvalid(field, "Must not contain control characters")}
	}
	return nil
}

func (t Trigger) validate() (faults fault.Faults) {
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"evaluation_period_seconds", t.Period}, {"polling_interval_seconds", t.Polling}} {
		if !slices.Contains(Lengths, f.d) {
			names := make([]string, len(Lengths))
			for i, l := range Lengths {
				names[i] = strconv.Itoa(int(l / time.Second))
			}
			faults.Add("trigger_conditions."+f.name, "Must be one of %s", strings.Join(names, ", "))
		}
	}
	if t.Occurrences < 1 || t.Occurrences > mostOccurrences {
		faults = append(faults, fault.Range("trigger_conditions.trigger_occurrences", 1, mostOccurrences))
	}
	return faults
}

func (c Criterion) validate(field string) (faults fault.Faults) {
	if _, ok := measure.Find(c.Metric); !ok {
		faults.Add(field+".metric", "%s is no metric of databases: see metric-definitions", fault.Quote([]string{c.Metric}))
	}
	if !slices.Contains(Aggregates, c.Aggregate) {
		faults = append(faults, fault.OneOf(field+".aggregate_function", Aggregates...))
	}
	if !slices.Contains(Operators, c.Operator) {
		faults = append(faults, fault.OneOf(field+".operator", Operators...))
	}
	if math.IsNaN(c.Threshold) || math.Abs(c.Threshold) > 1e15 {
		faults.Add(field+".threshold", "Must be a number of at most 1e15")
	}
	if len(c.Filters) > mostFilters {
		faults.Add(field+".dimension_filters", "Must have at most %d items", mostFilters)
	}
	for _, f := range c.Filters {
		at := field + ".dimension_filters."
		if !slices.Contains(Dimensions, f.Dimension) {
			faults = append(faults, fault.OneOf(at+"dimension_label", Dimensions...))
		}
		if !slices.Contains(FilterOperators, f.Operator) {
			faults = append(faults, fault.OneOf(at+"operator", FilterOperators...))
		}
		faults = append(faults, text(at+"value", f.Value, 1, mostValue)...)
	}
	return faults
}

// Completed is a rule of an account with what follows from the rest: where its criteria are well again.
func (r Rule) Completed() Rule {
	r.Criteria = slices.Clone(r.Criteria)
	d, _ := Default(r.ID)
	for i := range r.Criteria {
		c := &r.Criteria[i]
		width := math.Abs(c.Threshold) * band
		if r.ID != 0 && r.ID.System() { // as wide as it was, in proportion
			width = math.Abs(d.Criteria[i].Threshold-d.Criteria[i].Clear) / d.Criteria[i].Threshold * math.Abs(c.Threshold)
		}
		if c.Operator.Upward() {
			width = -width
		}
		c.Clear = c.Threshold + width
		if c.Operator == Equal {
			c.Clear = c.Threshold
		}
	}
	return r
}

// ValidateChange finds what of a default an account can't change: all but whether it is on, its severity, thresholds,
// trigger and channels.
func (r Rule) ValidateChange(to Rule) (faults fault.Faults) {
	fixed := func(field string, same bool) {
		if !same {
			faults.Add(field, "Can't be changed of a system alert: make one of your own, and switch this one off")
		}
	}
	fixed("label", to.Label == r.Label)
	fixed("description", to.Description == r.Description)
	fixed("scope", to.Scope == r.Scope)
	fixed("entity_ids", slices.Equal(to.Entities, r.Entities))
	fixed("regions", slices.Equal(to.Regions, r.Regions))
	same := len(to.Criteria) == len(r.Criteria)
	for i := range to.Criteria {
		a := to.Criteria[i]
		same = same && a.Metric == r.Criteria[i].Metric && a.Aggregate == r.Criteria[i].Aggregate && a.Operator == r.Criteria[i].Operator && len(a.Filters) == 0
	}
	if !same {
		faults.Add("rule_criteria.rules", "Only the thresholds of a system alert can be changed: make one of your own, and switch this one off")
	}
	for _, c := range to.Criteria {
		if same && (math.IsNaN(c.Threshold) || math.Abs(c.Threshold) > 1e15) {
			faults.Add("rule_criteria.rules.threshold", "Must be a number of at most 1e15")
		}
	}
	if to.Severity < Severe || to.Severity > Info {
		faults = append(faults, fault.Range("severity", int(Severe), int(Info)))
	}
	if len(to.Channels) > mostNamed {
		faults.Add("channel_ids", "Must have at most %d items", mostNamed)
	}
	if to.Trigger != r.Trigger { // some of the defaults' own can't be chosen
		faults = append(faults, to.Trigger.validate()...)
	}
	return faults
}

// Lacks is the first of the rule's metrics that databases of an engine don't have; "" for none.
func (r Rule) Lacks(engine cluster.Engine) string {
	for _, c := range r.Criteria {
		if d, ok := measure.Find(c.Metric); ok && !d.Of(engine) {
			return c.Metric
		}
	}
	return ""
}
