package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/measure"
	"steward/internal/store"
)

// longestLabel bounds what customers put into labels: names of databases and of their programs.
const longestLabel = 200

// expose writes what exporters show, with labels that tell the nodes apart.
func expose(shown control.Shown) ([]byte, error) {
	byName := map[string]*dto.MetricFamily{}
	var families []*dto.MetricFamily
	for _, node := range shown.Nodes {
		own := []*dto.LabelPair{pair("node", strconv.Itoa(node.Ordinal)), pair("role", string(node.Role)), pair("server", shown.Cluster.Label)}
		for _, f := range node.Families {
			family := byName[f.Name]
			if family == nil {
				family = &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: kinds[f.Kind].Enum()}
				byName[f.Name] = family
				families = append(families, family)
			}
			for _, s := range f.Samples {
				family.Metric = append(family.Metric, sampleOf(f.Kind, s, own))
			}
		}
	}
	var out bytes.Buffer
	for _, f := range families {
		if len(f.Metric) == 0 {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			return nil, fmt.Errorf("write %s: %w", f.GetName(), err)
		}
	}
	return out.Bytes(), nil
}

var kinds = map[measure.Kind]dto.MetricType{
	measure.KindCounter: dto.MetricType_COUNTER, measure.KindGauge: dto.MetricType_GAUGE, measure.KindUntyped: dto.MetricType_UNTYPED,
}

func sampleOf(kind measure.Kind, s measure.Sample, own []*dto.LabelPair) *dto.Metric {
	m := &dto.Metric{Label: slices.Clone(own)}
	for i := 0; i+1 < len(s.Labels); i += 2 {
		m.Label = append(m.Label, pair(s.Labels[i], s.Labels[i+1]))
	}
	switch kind {
	case measure.KindCounter:
		m.Counter = &dto.Counter{Value: &s.Value}
	case measure.KindGauge:
		m.Gauge = &dto.Gauge{Value: &s.Value}
	default:
		m.Untyped = &dto.Untyped{Value: &s.Value}
	}
	return m
}

// pair is a label. The value may be a customer's: any bytes, of any length.
func pair(name, value string) *dto.LabelPair {
	value = strings.ToValidUTF8(value, "\uFFFD")
	for i := range value {
		if i > longestLabel {
			_, last := utf8.DecodeLastRuneInString(value[:i])
			value = value[:i-last] + "…"
			break
		}
	}
	return &dto.LabelPair{Name: &name, Value: &value}
}

// targetView is a group of targets, as Prometheus discovers them by HTTP.
type targetView struct {
	Targets []string          `json:"targets" nullable:"false" doc:"This server's address, as the request has it."`
	Labels  map[string]string `json:"labels" doc:"The path to scrape, and what tells the database apart."`
}

// hostInput has the address that the request was sent to.
type hostInput struct{ host string }

// Resolve implements huma.Resolver.
func (in *hostInput) Resolve(ctx huma.Context) []error {
	in.host = ctx.Host()
	return nil
}

// discover lists a target for each database that the caller may see.
func (a *API) discover(ctx context.Context, c call[hostInput, none]) ([]targetView, error) {
	all, _, err := a.Control.Clusters.List(ctx, c.Principal, "", store.ListQuery{})
	targets := make([]targetView, 0, len(all))
	for _, db := range all {
		targets = append(targets, target(db, c.In.host))
	}
	return targets, err
}

func target(db cluster.Cluster, host string) targetView {
	return targetView{Targets: []string{host}, Labels: map[string]string{
		"__metrics_path__": instanceURI(db.Engine, db.ID) + "/prometheus",
		"instance":         db.Label, "database_id": strconv.FormatInt(int64(db.ID), 10), "database": db.Label,
		"engine": string(db.Engine), "engine_version": db.Series, "region": db.Region, "plan": db.Type,
	}}
}

func (a *API) registerDiscovery() {
	register(a, endpoint{
		method: http.MethodGet, path: "/v4/monitor/services/dbaas/prometheus-sd", id: "discoverDatabases", summary: "List databases as Prometheus discovers targets by HTTP", tag: monitorTag, scope: readDatabases,
	}, a.discover)
}
