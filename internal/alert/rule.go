package alert

import (
	"math"
	"slices"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
)

// ID identifies a rule: the defaults have theirs by the table, those of accounts by the store, from FirstOwn on.
type ID int64

// FirstOwn is the least id of a rule that an account made.
const FirstOwn ID = 10_000

// System reports whether it is one of the defaults.
func (id ID) System() bool { return id < FirstOwn }

// Severity is how bad it is, in the cloud's numbers.
type Severity int

// The severities.
const (
	Severe Severity = iota
	Medium
	Low
	Info
)

// String is the severity's name.
func (s Severity) String() string { return [...]string{"severe", "medium", "low", "info"}[s] }

// Aggregate makes one value of those of a period.
type Aggregate string

// The aggregates.
const (
	Average Aggregate = "avg"
	Lowest  Aggregate = "min"
	Highest Aggregate = "max"
	Sum     Aggregate = "sum"
)

// Operator compares a value with a threshold.
type Operator string

// The operators.
const (
	Above   Operator = "gt"
	AtLeast Operator = "gte"
	Below   Operator = "lt"
	AtMost  Operator = "lte"
	Equal   Operator = "eq"
)

// holds reports whether the operator holds between a value and a threshold.
func (o Operator) holds(value, threshold float64) bool {
	switch o {
	case Above:
		return value > threshold
	case AtLeast:
		return value >= threshold
	case Below:
		return value < threshold
	case AtMost:
		return value <= threshold
	}
	return value == threshold
}

// Upward reports whether more is worse.
func (o Operator) Upward() bool { return o == Above || o == AtLeast }

// Criterion is what must hold of one metric.
type Criterion struct {
	// Metric is the name of one that is measured, or one of the computed ones.
	Metric    string    `json:"metric"`
	Aggregate Aggregate `json:"aggregate_function"`
	Operator  Operator  `json:"operator"`
	Threshold float64   `json:"threshold"`
	// Clear is what the value has to get past, back again, for the alert to end: between the two nothing changes.
	Clear float64 `json:"clear"`
	// Filters tell which nodes count; all when there are none.
	Filters []Filter `json:"dimension_filters,omitempty"`
}

// breached reports whether a value is bad, and cleared whether it is well; in between it is neither.
func (c Criterion) breached(v float64) bool { return c.Operator.holds(v, c.Threshold) }

func (c Criterion) cleared(v float64) bool {
	if c.Operator == Equal {
		return v != c.Threshold
	}
	return !c.breached(v) && !c.Operator.holds(v, c.Clear)
}

// Trigger is when what holds opens an alert.
type Trigger struct {
	// Period is of how long the values are that are looked at together, and Polling how far looks are apart.
	Period  time.Duration
	Polling time.Duration
	// Occurrences is how many looks in a row must find it bad to open an alert, and well to end it.
	Occurrences int
}

// Scope is which databases a rule is for.
type Scope string

// The scopes.
const (
	OfAccount  Scope = "account"
	OfEntities Scope = "entity"
	OfRegions  Scope = "region"
)

// Rule is when a database has something wrong with it.
type Rule struct {
	ID ID
	// Name is a default's own, by which its table and its pages in the documents know it.
	Name        string
	Label       string
	Description string
	Severity    Severity
	Enabled     bool
	// Criteria must all hold.
	Criteria []Criterion
	Trigger  Trigger
	// Under is the default that says the same of something worse: while its alert is open this one doesn't open.
	Under ID
	// Found says of a value what is wrong, as a sentence with one %s for it; Show writes the value. Advice is what to do next.
	Found  string
	Show   func(v float64) string
	Advice string

	Scope    Scope
	Entities []cluster.ID
	Regions  []string
	// Channels are told of its alerts.
	Channels []ChannelID

	Created, Updated     time.Time
	CreatedBy, UpdatedBy string
}

// Subject is a database as rules tell databases apart.
type Subject struct {
	ID     cluster.ID
	Engine cluster.Engine
	Region string
}

// Covers reports whether a rule is for a database: the values that it lacks decide nothing anyway.
func (r Rule) Covers(s Subject) bool {
	switch r.Scope {
	case OfEntities:
		return slices.Contains(r.Entities, s.ID)
	case OfRegions:
		return slices.Contains(r.Regions, s.Region)
	}
	return true
}

// Metrics are those that are measured of the rule's.
func (r Rule) Metrics() (all []measure.Metric) {
	for _, c := range r.Criteria {
		if d, ok := measure.Find(c.Metric); ok {
			all = append(all, d.Metric)
		}
	}
	return all
}

// Effective are the rules of an account that made and changed some: the defaults, as they are for it, and its own.
func Effective(changed []Rule) []Rule {
	all := Defaults()
	for _, r := range changed {
		if r.ID.System() {
			if d, ok := Default(r.ID); ok {
				all[r.ID-1] = d.with(r)
			}
			continue
		}
		all = append(all, r)
	}
	return all
}

// with is a default with what may be changed of it.
func (r Rule) with(c Rule) Rule {
	r.Severity, r.Enabled, r.Criteria, r.Trigger, r.Channels = c.Severity, c.Enabled, c.Criteria, c.Trigger, c.Channels
	r.Updated, r.UpdatedBy = c.Updated, c.UpdatedBy
	return r
}

// Uses reports whether a rule asks for a metric.
func (r Rule) Uses(metric string) bool {
	return slices.ContainsFunc(r.Criteria, func(c Criterion) bool { return c.Metric == metric })
}

// What is computed, not measured, of databases.
const (
	// BackupAge is how old the data of the newest backup is that was proven to restore, in seconds.
	BackupAge = "backup_age"
	// DiskFullIn is in how many seconds the disk is full if it fills as it did in the last day; infinite when it doesn't.
	DiskFullIn = "disk_full_in"
)

// Computed are the values of a database that aren't measured; those that aren't known are missing.
type Computed map[string]float64

// unknown is a value that isn't known.
var unknown = math.NaN()
