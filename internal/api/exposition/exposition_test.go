package exposition_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"steward/internal/api/exposition"
	"steward/internal/cluster"
	"steward/internal/control"
	"steward/internal/measure"
	"steward/internal/platform"
)

// TestHostileLabels: whatever customers call their databases and programs, the text has one sample for each, whose
// value is what was measured.
func TestHostileLabels(t *testing.T) {
	t.Parallel()
	hostile := []string{
		"plain", "two\nlines", "pg_up 0\npg_up{x=\"", `quote"s`, `back\slash`, "\xff\xfe not UTF-8", "\x00\x1b[31m", strings.Repeat("x", 1<<20), strings.Repeat("ä", 500), "",
	}
	family := measure.Family{Name: "pg_stat_activity_count", Help: "Two\nlines of \\ help.", Kind: measure.KindGauge}
	for i, name := range hostile {
		family.Samples = append(family.Samples, measure.Sample{Labels: []string{"application_name", name}, Value: float64(i)})
	}
	none := measure.Family{Name: "pg_nothing", Kind: measure.KindCounter}
	node := platform.NodeFamilies{Role: cluster.Primary, Families: []measure.Family{family, none}}
	replica := platform.NodeFamilies{Ordinal: 1, Role: cluster.Replica, Families: []measure.Family{family}}
	shown := control.Shown{Cluster: cluster.Cluster{Spec: cluster.Spec{Label: "shop"}}, Nodes: []platform.NodeFamilies{node, replica}}
	out, err := exposition.Write(shown)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) > 20_000 {
		t.Errorf("%d bytes", len(out))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(out))
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v\n%s", len(families), err, out)
	}
	all := families["pg_stat_activity_count"].GetMetric()
	if len(all) != 2*len(hostile) {
		t.Fatalf("%d samples", len(all))
	}
	for i, m := range all {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		name := hostile[i%len(hostile)]
		if m.GetGauge().GetValue() != float64(i%len(hostile)) || len(labels) != 4 || labels["server"] != "shop" || len(labels["application_name"]) > exposition.LongestLabel+4 {
			t.Errorf("%.40q is %+.200v", name, m)
		}
		if len(name) < exposition.LongestLabel && !strings.HasPrefix(name, "\xff") && labels["application_name"] != name {
			t.Errorf("%q came back as %q", name, labels["application_name"])
		}
	}
}
