package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/measure"
	"steward/internal/platform"
	"steward/internal/store"
)

// Measurements are what of the measurements the store hasn't got yet.
type Measurements interface {
	Add(b *measure.Builder, id cluster.ID, wanted func(measure.Metric) bool)
}

// Scraper asks servers for what isn't kept of them.
type Scraper interface {
	Families(ctx context.Context, id cluster.ID) ([]platform.NodeFamilies, error)
	Tables(ctx context.Context, id cluster.ID, most int) ([]measure.Table, error)
}

// Metrics are the use cases of what is measured of databases.
type Metrics struct{ Deps }

// MetricsQuery is what is asked for; nil, or none, is chosen.
type MetricsQuery struct {
	From, To *time.Time
	// Step is the length of a step.
	Step *time.Duration
	// Metrics are their names; all that databases of the engine have when empty.
	Metrics []string
}

// Measured is what was measured of a database.
type Measured struct {
	Cluster cluster.Cluster
	measure.Range
	Metrics []MeasuredMetric
	// Primary reports of each node whether it was the primary when it was seen last.
	Primary map[int]bool
}

// MeasuredMetric is one metric: of each node, in their order, and of all together.
type MeasuredMetric struct {
	measure.Definition
	Nodes []measure.Series
	Whole []measure.Point
}

const (
	// mostSteps is how many steps may be asked for: a day in tens of seconds, and some.
	mostSteps = 10_000
	// fewSteps is about how many there are when no length is asked for.
	fewSteps = 400
	// mostValues bounds steps times metrics.
	mostValues = 100_000
	// lastHour is what is shown when no time is asked for.
	lastHour = time.Hour
)

// steps are those that are chosen from.
var steps = []time.Duration{
	measure.Every, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// leastStep is the shortest that there is for all of the time since a moment.
func leastStep(from, now time.Time) time.Duration {
	switch age := now.Sub(from); {
	case age <= measure.Fine.Keep:
		return measure.Fine.Step
	case age <= measure.Medium.Keep:
		return measure.Medium.Step
	}
	return measure.Coarse.Step
}

// plan is the range that is asked for, or what is wrong with it.
func (q MetricsQuery) plan(now time.Time, metrics int) (measure.Range, fault.Faults) {
	var faults fault.Faults
	to := changed(q.To, now)
	if to.After(now) {
		to = now
	}
	from := changed(q.From, to.Add(-lastHour))
	if !from.Before(to) {
		faults.Add("from", "Must be before to, and in the past")
		return measure.Range{}, faults
	}
	least := leastStep(from, now)
	step := least
	if q.Step != nil {
		step = *q.Step
		switch {
		case step < measure.Every || step > 24*time.Hour || step%measure.Every != 0:
			faults.Add("step", "Must be 10-86400 and a multiple of 10")
		case step%least != 0:
			faults.Add("step", "Must be a multiple of %d for times as old as that", int(least.Seconds()))
		}
	} else {
		for _, s := range steps {
			if step = s; s >= least && to.Sub(from)/s <= fewSteps {
				break
			}
		}
	}
	if len(faults) > 0 {
		return measure.Range{}, faults
	}
	r := measure.Range{From: measure.Floor(from, step), To: measure.Floor(to.Add(step-1), step), Step: step}
	switch n := r.Points(); {
	case n > mostSteps:
		faults.Add("step", "There would be %d steps; at most %d are shown at once", n, mostSteps)
	case n*metrics > mostValues:
		faults.Add("metric", "There would be %d values of each node; at most %d are shown at once", n*metrics, mostValues)
	}
	return r, faults
}

// definitions are those of the metrics that are asked for, of databases of an engine or, when it is empty, of any. What is
// wrong is the field's.
func (q MetricsQuery) definitions(engine cluster.Engine, field string) (list []measure.Definition, faults fault.Faults) {
	offered := func(d measure.Definition) bool { return engine == "" || d.Of(engine) }
	for _, d := range measure.Definitions() {
		if len(q.Metrics) == 0 && offered(d) {
			list = append(list, d)
		}
	}
	for i, name := range q.Metrics {
		d, ok := measure.Find(name)
		switch {
		case !ok || !offered(d):
			faults.Add(field, "%s is no metric of these databases", fault.Quote([]string{name}))
		case !slices.Contains(q.Metrics[:i], name):
			list = append(list, d)
		}
	}
	return list, faults
}

// View is what was measured of a database.
func (s *Metrics) View(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID, q MetricsQuery, faults fault.Faults) (Measured, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return Measured{}, err
	}
	definitions, found := q.definitions(c.Engine, "metric")
	r, wrong := q.plan(s.Now(), len(definitions))
	if err := combine(faults, append(found, wrong...)).Err(); err != nil {
		return Measured{}, err
	}
	return s.measured(ctx, c, r, definitions)
}

// measured reads what is kept and what is about to be.
func (s *Metrics) measured(ctx context.Context, c cluster.Cluster, r measure.Range, definitions []measure.Definition) (Measured, error) {
	numbers := []measure.Metric{measure.Primary}
	for _, d := range definitions {
		if d.Metric != measure.Primary {
			numbers = append(numbers, d.Metric)
		}
	}
	b := measure.NewBuilder(r)
	if s.Measurements != nil { // first: what is written meanwhile is seen twice rather than not at all
		s.Measurements.Add(b, c.ID, func(m measure.Metric) bool { return slices.Contains(numbers, m) })
	}
	if err := s.Store.AddMeasurements(ctx, b, c.ID, numbers); err != nil {
		return Measured{}, err
	}
	byMetric := map[measure.Metric][]measure.Series{}
	for _, one := range b.Series() {
		byMetric[one.Metric] = append(byMetric[one.Metric], one)
	}
	m := Measured{Cluster: c, Range: r, Primary: map[int]bool{}}
	for _, role := range byMetric[measure.Primary] {
		for _, p := range role.Points {
			if p.Known() {
				m.Primary[role.Node] = p.Mean >= 0.5
			}
		}
	}
	for _, d := range definitions {
		nodes := byMetric[d.Metric]
		slices.SortFunc(nodes, func(a, b measure.Series) int { return a.Node - b.Node })
		m.Metrics = append(m.Metrics, MeasuredMetric{Definition: d, Nodes: nodes, Whole: measure.Combine(nodes, d.Across)})
	}
	return m, nil
}

// Several are what was measured of several databases, all seen by the caller.
func (s *Metrics) Several(ctx context.Context, p account.Principal, ids []cluster.ID, q MetricsQuery, faults fault.Faults) ([]Measured, error) {
	definitions, found := q.definitions("", "metrics")
	var clusters []cluster.Cluster
	for _, id := range ids {
		c, err := s.Store.Cluster(ctx, store.ViewerOf(p), "", id)
		if fault.IsKind(err, fault.NotFound) {
			found.Add("entity_ids", "One of the databases isn't there")
			continue
		}
		if err != nil {
			return nil, err
		}
		clusters = append(clusters, c)
	}
	r, wrong := q.plan(s.Now(), len(definitions)*max(1, len(ids)))
	if err := combine(faults, append(found, wrong...)).Err(); err != nil {
		return nil, err
	}
	var all []Measured
	for _, c := range clusters {
		of := slices.DeleteFunc(slices.Clone(definitions), func(d measure.Definition) bool { return !d.Of(c.Engine) })
		one, err := s.measured(ctx, c, r, of)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// Shown is what exporters show of a database.
type Shown struct {
	Cluster cluster.Cluster
	// Nodes are none while the database rests.
	Nodes []platform.NodeFamilies
}

// Families asks a database's servers for what exporters show.
func (s *Metrics) Families(ctx context.Context, p account.Principal, engine cluster.Engine, id cluster.ID) (Shown, error) {
	c, err := s.Store.Cluster(ctx, store.ViewerOf(p), engine, id)
	if err != nil {
		return Shown{}, err
	}
	nodes, err := s.Scraper.Families(ctx, id)
	if errors.Is(err, platform.ErrNotRunning) {
		return Shown{Cluster: c}, nil
	}
	if errors.Is(err, platform.ErrAway) {
		return Shown{}, regionAway()
	}
	return Shown{c, nodes}, err
}

// MostTables is how many tables and indexes are shown.
const MostTables = 50

// Tables are the largest tables and indexes of a database. running is false while its servers rest.
func (s *Metrics) Tables(ctx context.Context, p account.Principal, of cluster.Engine, id cluster.ID) (tables []measure.Table, running bool, err error) {
	if _, err := s.Store.Cluster(ctx, store.ViewerOf(p), of, id); err != nil {
		return nil, false, err
	}
	tables, err = s.Scraper.Tables(ctx, id, MostTables)
	switch {
	case errors.Is(err, platform.ErrNotRunning):
		return nil, false, nil
	case errors.Is(err, platform.ErrAway):
		return nil, false, regionAway()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, engine.ErrStarting):
		return nil, true, fault.NewPrecondition("The database's server doesn't answer now")
	}
	return tables, true, err
}
