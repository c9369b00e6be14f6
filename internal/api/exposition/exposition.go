// Package exposition writes what servers say of themselves in Prometheus' text format.
package exposition

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"steward/internal/control"
	"steward/internal/measure"
)

// LongestLabel bounds what customers put into labels: names of databases and of their programs.
const LongestLabel = 200

// Write writes what exporters show of a database's nodes, with labels that tell these apart.
func Write(shown control.Shown) ([]byte, error) {
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
		if i > LongestLabel {
			_, last := utf8.DecodeLastRuneInString(value[:i])
			value = value[:i-last] + "…"
			break
		}
	}
	return &dto.LabelPair{Name: &name, Value: &value}
}
