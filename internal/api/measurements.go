package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/api/exposition"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/measure"
)

// metricsInput asks for what was measured.
type metricsInput struct {
	ID     int64  `path:"instanceId" minimum:"1" doc:"The database."`
	From   string `query:"from" doc:"Since when; an hour before to when left out."`
	To     string `query:"to" doc:"Until when; now when left out."`
	Step   int    `query:"step" doc:"Seconds of a step, a multiple of 10. What suits the time when left out. A day is kept in steps of 10, a month of 300, 400 days of 3600."`
	Metric string `query:"metric" doc:"Names of metrics, with commas between them; all when left out."`
}

// query is what is asked for; faults get what can't be read.
func (in metricsInput) query(faults *fault.Faults) control.MetricsQuery {
	q := control.MetricsQuery{From: optionalParameter("from", in.From, faults), To: optionalParameter("to", in.To, faults), Metrics: splitNames(in.Metric)}
	if in.Step != 0 {
		q.Step = new(time.Duration(min(max(in.Step, -1), 1<<20)) * time.Second)
	}
	return q
}

func optionalParameter(name, text string, faults *fault.Faults) *time.Time {
	if text == "" {
		return nil
	}
	return parseTime(name, &text, faults)
}

func splitNames(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// measuredView is what was measured of a database.
type measuredView struct {
	From    string       `json:"from" format:"date-time" doc:"When the first step begins."`
	To      string       `json:"to" format:"date-time" doc:"When the last step ends."`
	Step    int          `json:"step" doc:"Seconds of a step."`
	Metrics []metricView `json:"metrics" nullable:"false"`
}

// metricView is one metric. Each list of values has an item for each step.
type metricView struct {
	Name   string           `json:"name"`
	Label  string           `json:"label"`
	Doc    string           `json:"description"`
	Unit   string           `json:"unit" doc:"GB are 2^30 bytes."`
	Kind   string           `json:"type" enum:"gauge,counter" doc:"Of a counter the values are its rate by the second."`
	Across string           `json:"across" enum:"sum,avg,max" doc:"How the nodes' values become those of the database."`
	Values []*float64       `json:"values" nullable:"false" doc:"Of the database: the mean over the step, of all nodes together; null where nothing is known."`
	Min    []*float64       `json:"min" nullable:"false" doc:"The lowest in the step."`
	Max    []*float64       `json:"max" nullable:"false" doc:"The highest in the step."`
	Nodes  []nodeSeriesView `json:"nodes" nullable:"false"`
}

// nodeSeriesView is a metric of one node.
type nodeSeriesView struct {
	Node   int        `json:"node" doc:"The node's number."`
	Role   string     `json:"role" enum:"primary,replica" doc:"What it was when it was seen last in that time."`
	Values []*float64 `json:"values" nullable:"false"`
	Min    []*float64 `json:"min" nullable:"false"`
	Max    []*float64 `json:"max" nullable:"false"`
}

func kindOf(d measure.Definition) string {
	if d.Counter {
		return "counter"
	}
	return "gauge"
}

func showMeasured(m control.Measured) measuredView {
	v := measuredView{From: showTime(m.From), To: showTime(m.To), Step: int(m.Step.Seconds()), Metrics: make([]metricView, len(m.Metrics))}
	for i, metric := range m.Metrics {
		one := metricView{
			Name: metric.Name, Label: metric.Label, Doc: metric.Doc, Unit: string(metric.Unit), Kind: kindOf(metric.Definition), Across: string(metric.Across),
			Nodes: make([]nodeSeriesView, len(metric.Nodes)),
		}
		one.Values, one.Min, one.Max = showPoints(metric.Whole)
		for n, series := range metric.Nodes {
			node := nodeSeriesView{Node: series.Node, Role: roleOf(m, series.Node)}
			node.Values, node.Min, node.Max = showPoints(series.Points)
			one.Nodes[n] = node
		}
		v.Metrics[i] = one
	}
	return v
}

func roleOf(m control.Measured, node int) string {
	if m.Primary[node] {
		return string(cluster.Primary)
	}
	return string(cluster.Replica)
}

func showPoints(points []measure.Point) (mean, low, high []*float64) {
	mean, low, high = make([]*float64, len(points)), make([]*float64, len(points)), make([]*float64, len(points))
	for i, p := range points {
		if p.Known() {
			mean[i], low[i], high[i] = new(rounded(p.Mean)), new(rounded(p.Min)), new(rounded(p.Max))
		}
	}
	return mean, low, high
}

// rounded has six digits: what is kept has fewer.
func rounded(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	if scale < 1 {
		return math.Round(v)
	}
	return math.Round(v*scale) / scale
}

// tableView is the size of a table or an index.
type tableView struct {
	Database string  `json:"database"`
	Schema   string  `json:"schema" doc:"PostgreSQL's schema; empty on MySQL and MariaDB."`
	Table    string  `json:"table"`
	Index    *string `json:"index" doc:"The index; null for the table itself without its indexes. On MySQL and MariaDB * are all of the table's but the primary key."`
	Bytes    int64   `json:"size_bytes"`
	Rows     *int64  `json:"rows" doc:"About how many there are; null for an index."`
}

type tablesInput struct {
	ID int64 `path:"instanceId" minimum:"1" doc:"The database."`
	Listing
}

// tableFields are what tables can be filtered and ordered by.
var tableFields = filter.Fields{"database": filter.Text, "schema": filter.Text, "table": filter.Text, "size_bytes": filter.Number}

func tableMember(t measure.Table, field string) any {
	switch field {
	case "database":
		return t.Database
	case "schema":
		return t.Schema
	case "table":
		return t.Table
	}
	return t.Bytes
}

func showTable(t measure.Table) tableView {
	v := tableView{Database: t.Database, Schema: t.Schema, Table: t.Table, Index: orNull(t.Index), Bytes: t.Bytes}
	if t.Index == "" {
		v.Rows = &t.Rows
	}
	return v
}

// registerMeasured adds what is measured of one engine's databases.
func (a *API) registerMeasured(engine cluster.Engine, name string) {
	metrics := a.Control.Metrics
	one := fmt.Sprintf("/v4/databases/%s/instances/{instanceId}", engine)
	register(a, endpoint{
		method: http.MethodGet, path: one + "/metrics", id: "viewMetricsOf" + name + "Database", summary: "View what was measured of a database", tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[metricsInput, none]) (measuredView, error) {
		q := c.In.query(&c.Faults)
		found, err := metrics.View(ctx, c.Principal, engine, cluster.ID(c.In.ID), q, c.Faults)
		return showMeasured(found), err
	})
	register(a, endpoint{
		method: http.MethodGet, path: one + "/tables", id: "listTablesOf" + name + "Database", summary: "List the 50 largest tables and indexes of a database, the largest first", tag: name + " databases", scope: readDatabases, maybeEmpty: true,
	}, func(ctx context.Context, c call[tablesInput, none]) (list[tableView], error) {
		if _, err := c.In.query(tableFields); err != nil { // before a server is asked
			return list[tableView]{}, err
		}
		found, running, err := metrics.Tables(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		switch {
		case err != nil:
			return list[tableView]{}, err
		case !running:
			return list[tableView]{}, noContent{}
		}
		return listInMemory(inMemory[measure.Table]{found, tableFields, tableMember}, c.In.Listing, showTable)
	})
	registerText(a, endpoint{
		method: http.MethodGet, path: one + "/prometheus", id: "scrape" + name + "Database", summary: "View what a database's servers say of themselves, in Prometheus' text format", tag: name + " databases", scope: readDatabases,
	}, func(ctx context.Context, c call[instancePath, none]) ([]byte, error) {
		found, err := metrics.Families(ctx, c.Principal, engine, cluster.ID(c.In.ID))
		if err != nil {
			return nil, err
		}
		return exposition.Write(found)
	})
}

// text is an answer that isn't JSON.
type text struct {
	Status int
	Type   string `header:"Content-Type"`
	Body   []byte
}

const textType = "text/plain; version=0.0.4; charset=utf-8"

// registerText adds an operation that answers a text.
func registerText[I any](a *API, e endpoint, handle func(ctx context.Context, c call[I, none]) ([]byte, error)) {
	op := a.newOperation(e)
	op.Responses["200"] = &huma.Response{
		Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*text, error) {
		body, err := handle(ctx, call[I, none]{In: *in, Principal: stateOf(ctx).principal})
		if err != nil {
			return nil, a.toStatus(ctx, err)
		}
		return &text{http.StatusOK, textType, body}, nil
	})
	documentAnswers(e, a.operation(e))
	a.deliveries[e.method+" "+e.path] = e.delivery()
}
