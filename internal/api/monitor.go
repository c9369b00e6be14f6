package api

import (
	"context"
	"fmt"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/alert"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/measure"
)

const (
	monitorTag = "Monitor"
	// dbaas is the one type of service that is measured.
	dbaas = "dbaas"
)

// monitorServiceView is a type of service that is measured.
type monitorServiceView struct {
	Label       string           `json:"label"`
	ServiceType string           `json:"service_type"`
	Alert       monitorAlertView `json:"alert"`
}

// monitorAlertView is which alerts can be defined.
type monitorAlertView struct {
	Polling    []int    `json:"polling_interval_seconds" nullable:"false"`
	Evaluation []int    `json:"evaluation_period_seconds" nullable:"false"`
	Scope      []string `json:"scope" nullable:"false"`
}

var dbaasService = monitorServiceView{"Databases", dbaas, monitorAlertView{alertLengths, alertLengths, []string{string(alert.OfEntities), string(alert.OfAccount), string(alert.OfRegions)}}}

var alertLengths = func() (all []int) {
	for _, l := range alert.Lengths {
		all = append(all, int(l.Seconds()))
	}
	return all
}()

type serviceTypePath struct {
	Type string `path:"serviceType" doc:"dbaas is the only one."`
}

func (in serviceTypePath) check() error {
	if in.Type != dbaas {
		return fault.NewNotFound()
	}
	return nil
}

// definitionView is what there is to know of a metric.
type definitionView struct {
	Metric     string          `json:"metric"`
	Label      string          `json:"label"`
	Kind       string          `json:"metric_type" enum:"gauge,counter"`
	Unit       string          `json:"unit" doc:"GB are 2^30 bytes; of a counter the values are its rate by the second."`
	Interval   string          `json:"scrape_interval"`
	Alertable  bool            `json:"is_alertable"`
	Aggregates []string        `json:"available_aggregate_functions" nullable:"false"`
	Dimensions []dimensionView `json:"dimensions" nullable:"false"`
}

// dimensionView is what a metric's series can be told apart by.
type dimensionView struct {
	Label  string   `json:"label"`
	Name   string   `json:"dimension_label"`
	Values []string `json:"values" nullable:"false"`
}

// The dimensions.
const (
	byEntity, byNode, byRole = "entity_id", "node_id", "node_type"
	rolePrimary              = "primary"
	roleSecondary            = "secondary"
)

var aggregates = []string{"avg", "max", "min", "sum"}

func showDefinition(d measure.Definition) definitionView {
	return definitionView{
		Metric: d.Name, Label: d.Label, Kind: kindOf(d), Unit: string(d.Unit), Interval: fmt.Sprintf("%ds", int(measure.Every.Seconds())), Alertable: true, Aggregates: aggregates,
		Dimensions: []dimensionView{{"Node Type", byRole, []string{rolePrimary, roleSecondary}}, {"Node", byNode, []string{}}},
	}
}

var definitionFields = filter.Fields{"metric": filter.Text, "label": filter.Text, "unit": filter.Text, "metric_type": filter.Text}

func definitionMember(d measure.Definition, field string) any {
	v := showDefinition(d)
	return map[string]any{"metric": v.Metric, "label": v.Label, "unit": v.Unit, "metric_type": v.Kind}[field]
}

// metricsBody asks for metrics of several databases.
type metricsBody struct {
	Entities    []int64        `json:"entity_ids" nullable:"false" maxItems:"100" doc:"The databases."`
	Metrics     []askedMetric  `json:"metrics" nullable:"false" maxItems:"50"`
	Relative    *duration      `json:"relative_time_duration,omitempty" doc:"How far back from now. Either this or absolute_time_duration; an hour when both are left out."`
	Absolute    *absolute      `json:"absolute_time_duration,omitempty"`
	Granularity any            `json:"time_granularity,omitempty" doc:"Length of a step, as unit and value, or a list with one such; what suits the time when left out."`
	Filters     []metricFilter `json:"filters,omitempty" nullable:"false" maxItems:"20"`
	GroupBy     []string       `json:"group_by,omitempty" nullable:"false" maxItems:"3" doc:"What to tell apart: entity_id, node_id, node_type. entity_id and node_id when left out."`
}

type askedMetric struct {
	Name      string `json:"name" minLength:"1" maxLength:"64"`
	Aggregate string `json:"aggregate_function" enum:"avg,max,min,sum" doc:"Over the step max and min are the highest and the lowest, others the mean; it also makes one of several nodes that aren't told apart."`
}

type duration struct {
	Unit  string `json:"unit" enum:"sec,min,hr,days"`
	Value int    `json:"value" minimum:"1" maximum:"40000000"`
}

var durationUnits = map[string]time.Duration{"sec": time.Second, "min": time.Minute, "hr": time.Hour, "days": 24 * time.Hour}

func (d duration) length() time.Duration { return durationUnits[d.Unit] * time.Duration(d.Value) }

// granularity reads the length of a step: the cloud's document has an object, its clients send a list.
func granularity(v any) (time.Duration, bool) {
	if all, ok := v.([]any); ok && len(all) == 1 {
		v = all[0]
	}
	object, _ := v.(map[string]any)
	unit, _ := object["unit"].(string)
	value, _ := object["value"].(float64)
	ok := durationUnits[unit] > 0 && value >= 1 && value <= 1e6 && value == math.Trunc(value)
	return durationUnits[unit] * time.Duration(value), ok
}

type absolute struct {
	Start string `json:"start" format:"date-time"`
	End   string `json:"end" format:"date-time"`
}

type metricFilter struct {
	Dimension string `json:"dimension_label" enum:"entity_id,node_id,node_type"`
	Operator  string `json:"operator" enum:"eq,neq,startswith,endswith,in"`
	Value     string `json:"value" maxLength:"1000" doc:"For in, several with commas between them."`
}

// matches reports whether a series passes.
func (f metricFilter) matches(labels map[string]string) bool {
	v := labels[f.Dimension]
	switch f.Operator {
	case "eq":
		return v == f.Value
	case "neq":
		return v != f.Value
	case "startswith":
		return strings.HasPrefix(v, f.Value)
	case "endswith":
		return strings.HasSuffix(v, f.Value)
	}
	return slices.ContainsFunc(strings.Split(f.Value, ","), func(one string) bool { return strings.TrimSpace(one) == v })
}

// query is what control is asked; faults get what can't be.
func (b metricsBody) query(now time.Time, faults *fault.Faults) (control.MetricsQuery, []cluster.ID) {
	var q control.MetricsQuery
	for _, m := range b.Metrics {
		q.Metrics = append(q.Metrics, m.Name)
	}
	if len(b.Metrics) == 0 && !faults.Name("metrics") {
		*faults = append(*faults, fault.Required("metrics"))
	}
	switch {
	case b.Relative != nil && b.Absolute != nil:
		faults.Add("absolute_time_duration", "Must not be together with relative_time_duration")
	case b.Relative != nil && b.Relative.length() > 0:
		q.From = new(now.Add(-b.Relative.length()))
	case b.Absolute != nil:
		q.From, q.To = parseTime("absolute_time_duration.start", &b.Absolute.Start, faults), parseTime("absolute_time_duration.end", &b.Absolute.End, faults)
	}
	if b.Granularity != nil {
		if step, ok := granularity(b.Granularity); ok {
			q.Step = &step
		} else {
			faults.Add("time_granularity", "Must have a unit (sec, min, hr or days) and a value of 1 or more")
		}
	}
	for _, name := range b.GroupBy {
		if !slices.Contains([]string{byEntity, byNode, byRole}, name) {
			*faults = append(*faults, fault.OneOf("group_by", byEntity, byNode, byRole))
			break
		}
	}
	ids := make([]cluster.ID, 0, len(b.Entities))
	for _, id := range b.Entities {
		if !slices.Contains(ids, cluster.ID(id)) {
			ids = append(ids, cluster.ID(id))
		}
	}
	return q, ids
}

// fetchedView is what was measured, as the cloud's API answers it.
type fetchedView struct {
	Data    fetchedData  `json:"data"`
	Partial bool         `json:"is_partial"`
	Stats   fetchedStats `json:"stats"`
	Status  string       `json:"status" enum:"success"`
}

type fetchedData struct {
	Result []fetchedSeries `json:"result" nullable:"false"`
	Type   string          `json:"result_type" enum:"matrix"`
}

type fetchedSeries struct {
	Metric map[string]any `json:"metric" doc:"metric_name, and what tells the series apart."`
	Values [][]any        `json:"values" nullable:"false" doc:"Pairs of a time, in seconds since 1970, and a number as text. What isn't known is left out."`
}

type fetchedStats struct {
	Time   int64  `json:"executionTimeMsec"`
	Series string `json:"seriesFetched"`
}

// group is series that become one.
type group struct {
	labels map[string]any
	series []measure.Series
}

// fetch groups and aggregates what was measured.
func (b metricsBody) fetch(all []control.Measured) []fetchedSeries {
	by := b.GroupBy
	if len(by) == 0 {
		by = []string{byEntity, byNode}
	}
	out := []fetchedSeries{}
	for _, asked := range b.Metrics {
		groups := map[string]*group{}
		var order []string
		for of, s := range b.chosen(all, asked.Name) {
			key, shown := keyOf(by, asked.Name, labelsOf(of, s), of.Cluster.ID)
			if groups[key] == nil {
				groups[key] = &group{labels: shown}
				order = append(order, key)
			}
			groups[key].series = append(groups[key].series, s)
		}
		for _, key := range order {
			out = append(out, fetchedSeries{groups[key].labels, groups[key].values(asked.Aggregate)})
		}
	}
	return out
}

// chosen are the series of a metric that pass all filters, each with what it was measured of.
func (b metricsBody) chosen(all []control.Measured, name string) iter.Seq2[control.Measured, measure.Series] {
	return func(yield func(control.Measured, measure.Series) bool) {
		for _, db := range all {
			for _, metric := range db.Metrics {
				if metric.Name != name {
					continue
				}
				for _, s := range metric.Nodes {
					if b.passes(labelsOf(db, s)) && !yield(db, s) {
						return
					}
				}
			}
		}
	}
}

func (b metricsBody) passes(labels map[string]string) bool {
	return !slices.ContainsFunc(b.Filters, func(f metricFilter) bool { return !f.matches(labels) })
}

func labelsOf(db control.Measured, s measure.Series) map[string]string {
	role := roleSecondary
	if db.Primary[s.Node] {
		role = rolePrimary
	}
	id := strconv.FormatInt(int64(db.Cluster.ID), 10)
	return map[string]string{byEntity: id, byNode: id + "-" + strconv.Itoa(s.Node), byRole: role}
}

// keyOf names a group of series, and is its labels as they are shown.
func keyOf(by []string, name string, labels map[string]string, id cluster.ID) (string, map[string]any) {
	shown := map[string]any{"metric_name": name}
	var key strings.Builder
	for _, dimension := range by {
		key.WriteString(labels[dimension] + "\x00")
		shown[dimension] = labels[dimension]
		if dimension == byEntity {
			shown[dimension] = int64(id)
		}
	}
	return key.String(), shown
}

func (g *group) values(aggregate string) [][]any {
	values := [][]any{}
	for i := range g.series[0].Points {
		sum, n, low, high := 0.0, 0, math.Inf(1), math.Inf(-1)
		for _, s := range g.series {
			if p := s.Points[i]; p.Known() {
				sum, n, low, high = sum+p.Mean, n+1, min(low, p.Min), max(high, p.Max)
			}
		}
		if n == 0 {
			continue
		}
		v := map[string]float64{"avg": sum / float64(n), "sum": sum, "min": low, "max": high}[aggregate]
		at := g.series[0].Start.Add(time.Duration(i) * g.series[0].Step)
		values = append(values, []any{at.Unix(), strconv.FormatFloat(rounded(v), 'f', -1, 64)})
	}
	return values
}

func (a *API) fetchMetrics(ctx context.Context, c call[serviceTypePath, metricsBody]) (fetchedView, error) {
	if err := c.In.check(); err != nil {
		return fetchedView{}, err
	}
	began := time.Now()
	q, ids := c.Body.query(a.Now(), &c.Faults)
	all, err := a.Control.Metrics.Several(ctx, c.Principal, ids, q, c.Faults)
	if err != nil {
		return fetchedView{}, err
	}
	result := c.Body.fetch(all)
	return fetchedView{
		Data: fetchedData{result, "matrix"}, Stats: fetchedStats{time.Since(began).Milliseconds(), strconv.Itoa(len(result))}, Status: "success",
	}, nil
}

func (a *API) registerMonitor() {
	const all, one = "/v4/monitor/services", "/v4/monitor/services/{serviceType}"
	e := func(method, path, id, summary string) endpoint {
		return endpoint{method: method, path: path, id: id, summary: summary, tag: monitorTag, scope: readDatabases}
	}
	register(a, e(http.MethodGet, all, "listMonitorServices", "List the types of services that are measured"),
		func(_ context.Context, c call[Listing, none]) (list[monitorServiceView], error) {
			fields := filter.Fields{"label": filter.Text, "service_type": filter.Text}
			member := func(s monitorServiceView, field string) any {
				return map[string]any{"label": s.Label, "service_type": s.ServiceType}[field]
			}
			return listInMemory(inMemory[monitorServiceView]{[]monitorServiceView{dbaasService}, fields, member}, c.In, func(s monitorServiceView) monitorServiceView { return s })
		})
	register(a, e(http.MethodGet, one, "viewMonitorService", "View a type of service that is measured"),
		func(_ context.Context, c call[serviceTypePath, none]) (monitorServiceView, error) {
			return dbaasService, c.In.check()
		})
	register(a, e(http.MethodGet, one+"/metric-definitions", "listMetricDefinitions", "List the metrics of a type of service"),
		func(_ context.Context, c call[definitionsInput, none]) (list[definitionView], error) {
			if err := (serviceTypePath{c.In.Type}).check(); err != nil {
				return list[definitionView]{}, err
			}
			return listInMemory(inMemory[measure.Definition]{measure.Definitions(), definitionFields, definitionMember}, c.In.Listing, showDefinition)
		})
	register(a, e(http.MethodPost, one+"/metrics", "fetchMetrics", "Fetch metrics of several databases"), a.fetchMetrics)
	register(a, e(http.MethodPost, one+"/token", "createMetricsToken", "Refuse a token for metrics alone, which isn't offered"),
		func(_ context.Context, c call[serviceTypePath, none]) (empty, error) {
			if err := c.In.check(); err != nil {
				return empty{}, err
			}
			return empty{}, fault.NewPrecondition("Tokens for metrics alone aren't offered: the API's own token fetches them, at this address, by POST /v4/monitor/services/dbaas/metrics")
		})
	register(a, e(http.MethodGet, one+"/dashboards", "listMonitorDashboards", "List dashboards, of which there are none"),
		func(_ context.Context, c call[definitionsInput, none]) (list[empty], error) {
			if err := (serviceTypePath{c.In.Type}).check(); err != nil {
				return list[empty]{}, err
			}
			none := inMemory[empty]{fields: filter.Fields{"id": filter.Number, "label": filter.Text}}
			return listInMemory(none, c.In.Listing, func(e empty) empty { return e })
		})
}

type definitionsInput struct {
	Type string `path:"serviceType" doc:"dbaas is the only one."`
	Listing
}
