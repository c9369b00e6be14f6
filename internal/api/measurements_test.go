package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/measure"
	"steward/internal/platform"
	"steward/internal/store"
)

// measuredFrom is when what tests put into the store begins.
func measuredFrom() time.Time { return time.Now().UTC().Truncate(time.Hour).Add(-2 * time.Hour) }

// measured puts a minute of two nodes into the store, of which one step isn't known: connections are 1, 2, 3 … on the primary
// and 10 on the other.
func (b *bench) measured(id int64) {
	b.t.Helper()
	var all []store.Slice
	for n := range 2 {
		for node := range 2 {
			steps := [3]measure.Values{measure.Unknown(), measure.Unknown(), measure.Unknown()}
			for i := range steps {
				steps[i][measure.Primary] = float64(1 - node)
				steps[i][measure.Connections] = float64(n*3 + i + 1)
				if node == 1 {
					steps[i][measure.Connections] = 10
				}
			}
			if n == 1 {
				steps[2] = measure.Unknown()
			}
			all = append(all, store.Slice{
				Cluster: cluster.ID(id), Node: node, Started: measuredFrom().Add(time.Duration(n) * measure.Slice), Packed: measure.PackSlice(steps[:]),
			})
		}
	}
	if err := b.store.AddSlices(b.t.Context(), all); err != nil {
		b.t.Fatal(err)
	}
}

func at(t time.Time) string { return t.Format("2006-01-02T15:04:05") }

type shownMetrics struct {
	From, To string
	Step     int
	Metrics  []struct {
		Name, Unit, Type, Across string
		Values, Min, Max         []*float64
		Nodes                    []struct {
			Node   int
			Role   string
			Values []*float64
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.measured(id)
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d/metrics", id)
	begin := measuredFrom()
	asked := path + "?metric=connections&from=" + at(begin) + "&to=" + at(begin.Add(time.Minute))
	var got shownMetrics
	r := b.send("GET", asked+"&step=10", b.readOnly, "")
	b.decode(r, &got)
	m := got.Metrics[0]
	if r.StatusCode != 200 || len(got.Metrics) != 1 || m.Name != "connections" || m.Unit != "count" || m.Type != "gauge" || got.Step != 10 || got.From != at(begin) {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	number := func(n float64) *float64 { return &n }
	if diff := cmp.Diff([]*float64{number(11), number(12), number(13), number(14), number(15), nil}, m.Values); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(m.Nodes) != 2 || m.Nodes[0].Role != "primary" || m.Nodes[1].Role != "replica" || *m.Nodes[1].Values[0] != 10 {
		t.Errorf("%+v", m.Nodes)
	}
	r = b.send("GET", asked+"&step=60", b.readOnly, "")
	b.decode(r, &got)
	if m := got.Metrics[0]; len(m.Values) != 1 || *m.Values[0] != 13 || *m.Min[0] != 11 || *m.Max[0] != 15 {
		t.Errorf("a minute: %s", r.body)
	}
	r = b.send("GET", path, b.readOnly, "")
	b.decode(r, &got)
	if r.StatusCode != 200 || len(got.Metrics) < 30 || got.Step != 10 && got.Step != 30 {
		t.Errorf("with nothing said: %d, step %d, %d metrics", r.StatusCode, got.Step, len(got.Metrics))
	}
	for _, m := range got.Metrics {
		if m.Name == "queries" {
			t.Error("PostgreSQL has a metric of MySQL's")
		}
	}
	for query, want := range map[string][]string{
		"?from=yesterday&metric=nothing":                                 {"from: Must be a time such as 2026-01-31T18:04:05", `metric: nothing is no metric of these databases`},
		"?metric=queries&step=7":                                         {`metric: queries is no metric of these databases`, "step: Must be 10-86400 and a multiple of 10"},
		"?from=2026-01-02T00:00:00&to=2026-01-01T00:00:00":               {"from: Must be before to, and in the past"},
		"?from=" + at(time.Now().UTC().AddDate(0, 0, -3)) + "&step=60":   {"step: Must be a multiple of 300 for times as old as that"},
		"?from=" + at(time.Now().UTC().AddDate(0, 0, -29)) + "&step=300": {"metric: "},
		"?step=x": {"step: "},
	} {
		r := b.send("GET", path+query, b.readOnly, "")
		found := r.faults()
		if r.StatusCode != 400 || len(found) != len(want) {
			t.Errorf("%s: %d %q, want %q", query, r.StatusCode, found, want)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(found[i], want[i]) {
				t.Errorf("%s: %q, want %q", query, found[i], want[i])
			}
		}
	}
	if r := b.send("GET", path, b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("without a grant: %d", r.StatusCode)
	}
	b.grant(id, "read_only")
	if r := b.send("GET", path, b.restricted, ""); r.StatusCode != 200 {
		t.Errorf("with a grant: %d", r.StatusCode)
	}
}

func TestMonitorServices(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.measured(id)
	const services = "/v4/monitor/services"
	r := b.send("GET", services, b.readOnly, "")
	if r.StatusCode != 200 || !strings.Contains(r.body, `"service_type":"dbaas"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, path := range []string{"/linode", "/linode/metric-definitions", "/linode/dashboards"} {
		if r := b.send("GET", services+path, b.readOnly, ""); r.StatusCode != 404 {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	var definitions struct {
		Data []struct {
			Metric, Unit string
			Interval     string `json:"scrape_interval"`
		}
		Results int
	}
	if r := b.send("POST", services+"/dbaas/token", b.readOnly, `{"entity_ids":[1]}`); r.StatusCode != 400 || !strings.Contains(r.body, "the API's own token fetches them") {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	b.decode(b.send("GET", services+"/dbaas/metric-definitions?page_size=500", b.readOnly, ""), &definitions)
	if definitions.Results != measure.Count-1 || definitions.Data[2].Metric != "cpu_usage" || definitions.Data[2].Unit != "percent" || definitions.Data[2].Interval != "10s" {
		t.Errorf("%+v", definitions)
	}
	begin := measuredFrom()
	fetch := func(more string) reply {
		return b.send("POST", services+"/dbaas/metrics", b.readOnly, fmt.Sprintf(
			`{"entity_ids":[%d],"metrics":[{"name":"connections","aggregate_function":"sum"}],"absolute_time_duration":{"start":%q,"end":%q},"time_granularity":{"unit":"sec","value":30}%s}`,
			id, begin.Format(time.RFC3339), begin.Add(time.Minute).Format(time.RFC3339), more))
	}
	type fetched struct {
		Data struct {
			Result []struct {
				Metric map[string]any
				Values [][]any
			}
			Type string `json:"result_type"`
		}
		Partial bool `json:"is_partial"`
		Stats   map[string]any
		Status  string
	}
	var got fetched
	r = fetch("")
	b.decode(r, &got)
	if got.Status != "success" || got.Data.Type != "matrix" || len(got.Data.Result) != 2 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	first := got.Data.Result[0]
	want := map[string]any{"entity_id": float64(id), "metric_name": "connections", "node_id": fmt.Sprintf("%d-0", id)}
	if diff := cmp.Diff(want, first.Metric); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([][]any{{float64(begin.Unix()), "2"}, {float64(begin.Unix() + 30), "4.5"}}, first.Values); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for more, values := range map[string]string{
		`,"group_by":["entity_id"]`: "12",
		`,"group_by":["node_type"],"filters":[{"dimension_label":"node_type","operator":"eq","value":"secondary"}]`: "10",
		`,"filters":[{"dimension_label":"node_id","operator":"endswith","value":"-0"}]`:                             "2",
		`,"filters":[{"dimension_label":"node_type","operator":"in","value":"other, primary"}]`:                     "2",
		`,"filters":[{"dimension_label":"node_type","operator":"neq","value":"primary"}]`:                           "10",
	} {
		got = fetched{}
		r := fetch(more)
		b.decode(r, &got)
		if len(got.Data.Result) != 1 || got.Data.Result[0].Values[0][1] != values {
			t.Errorf("%s: %s", more, r.body)
		}
	}
	for body, want := range map[string][]string{
		`{}`: {"entity_ids: entity_ids is required", "metrics: metrics is required"},
		`{"entity_ids":[999],"metrics":[{"name":"none","aggregate_function":"median"},{"name":"nothing","aggregate_function":"avg"}]}`: {
			"entity_ids: One of the databases isn't there", "metrics: Must be",
		},
		`{"entity_ids":[],"metrics":[{"name":"up","aggregate_function":"avg"}],"relative_time_duration":{"unit":"year","value":0},"group_by":["x"],"time_granularity":{"unit":"sec","value":7}}`: {
			"group_by: Must be", "relative_time_duration.unit: Must be", "relative_time_duration.value: Must be", "step: Must be",
		},
	} {
		r := b.send("POST", services+"/dbaas/metrics", b.readOnly, body)
		t.Logf("%s: %q", body, r.faults())
		if r.StatusCode != 400 || len(r.faults()) < len(want)-1 {
			t.Errorf("%s: %d %q, want %q", body, r.StatusCode, r.faults(), want)
		}
	}
}

// started puts a database on the platform.
func (b *bench) started(id int64) {
	b.t.Helper()
	c, err := b.store.ClusterForWork(b.t.Context(), cluster.ID(id))
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.driver.Apply(b.t.Context(), platform.Wanted{Cluster: c, Plan: catalog.DefaultPlans()[0]}); err != nil {
		b.t.Fatal(err)
	}
}

func TestPrometheus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	b.started(id)
	r := b.send("GET", path+"/prometheus", b.readOnly, "")
	if kind := r.Header.Get("Content-Type"); r.StatusCode != 200 || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Fatalf("%d %s %s", r.StatusCode, kind, r.body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(r.body))
	if err != nil {
		t.Fatalf("%v\n%s", err, r.body)
	}
	up := families["pg_up"].GetMetric()[0]
	if labels := labelsOf(up); up.GetGauge().GetValue() != 1 || labels["node"] != "0" || labels["role"] != "primary" || labels["server"] != "shop" {
		t.Errorf("%s", r.body)
	}
	if r := b.send("GET", path+"/tables", b.readOnly, ""); r.StatusCode != 200 || !strings.Contains(r.body, `"table":"data"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	const discovery = "/v4/monitor/services/dbaas/prometheus-sd"
	want := fmt.Sprintf(`[{"targets":["example.com"],"labels":{"__metrics_path__":"%s/prometheus","database":"shop","database_id":"%d","engine":"postgresql","engine_version":"15","instance":"shop","plan":"g6-nanode-1","region":"local"}}]`, path, id)
	if r := b.send("GET", discovery, b.readOnly, ""); strings.TrimSpace(r.body) != want || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got  %s\nwant %s", r.body, want)
	}
	for who, token := range map[string]string{"without a grant": b.restricted, "another account's": b.stranger()} {
		if r := b.send("GET", discovery, token, ""); strings.TrimSpace(r.body) != "[]" {
			t.Errorf("%s: %s", who, r.body)
		}
		if r := b.send("GET", path+"/prometheus", token, ""); r.StatusCode != 404 {
			t.Errorf("%s: %d", who, r.StatusCode)
		}
	}
}

func TestPrometheusAtRest(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d", b.create())
	if r := b.send("GET", path+"/prometheus", b.readOnly, ""); r.StatusCode != 200 || r.body != "" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if r := b.send("GET", path+"/tables", b.readOnly, ""); r.StatusCode != 204 {
		t.Errorf("tables: %d %q", r.StatusCode, r.body)
	}
}

func labelsOf(m *dto.Metric) map[string]string {
	all := map[string]string{}
	for _, l := range m.GetLabel() {
		all[l.GetName()] = l.GetValue()
	}
	return all
}
