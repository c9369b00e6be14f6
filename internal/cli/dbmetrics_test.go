package cli

import (
	"math"
	"strings"
	"testing"

	"steward/client"
)

func TestPlotMetric(t *testing.T) {
	t.Parallel()
	values := make([]*float64, 120)
	for i := range values {
		if i < 40 || i > 60 {
			values[i] = new(float64(i))
		}
	}
	of := client.Metrics{From: "2026-01-31T10:00:00", To: "2026-01-31T11:00:00", Step: 30}
	plot := plotMetric(client.Metric{Name: "connections", Label: "Connections", Unit: "count", Values: values}, of, 80)
	for _, want := range []string{"Connections (connections): now 118, at most 118", "10:00", "11:00", "┤"} {
		if !strings.Contains(plot, want) {
			t.Errorf("%q isn't in\n%s", want, plot)
		}
	}
	lines := strings.Split(plot, "\n")
	for _, line := range lines {
		if n := len([]rune(line)); n > 86 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if len(lines) < plotHeight+2 || len(lines) > plotHeight+5 {
		t.Errorf("%d lines\n%s", len(lines), plot)
	}
	if plot := plotMetric(client.Metric{Name: "up", Label: "Up", Values: make([]*float64, 10)}, of, 80); !strings.Contains(plot, "nothing was measured") {
		t.Errorf("%s", plot)
	}
	for _, few := range [][]*float64{{new(0.0)}, {new(1.0), nil}, {nil, new(5.0), nil}} {
		if plot := plotMetric(client.Metric{Name: "up", Label: "Up", Values: few}, of, 20); !strings.ContainsAny(plot, "┤┼") {
			t.Errorf("%s", plot)
		}
	}
}

// TestPlotOfANode plots what it has of one alone.
func TestPlotOfANode(t *testing.T) {
	t.Parallel()
	url, _ := looked(t, map[string]string{"/metrics": `{"from":"2026-01-31T10:00:00","to":"2026-01-31T11:00:00","step":1200,"metrics":[{"name":"connections","label":"Connections","unit":"count",
		"values":[3,3,3],"nodes":[{"node":0,"role":"primary","values":[1,1,1]},{"node":1,"role":"replica","values":[2,2,2]}]}]}`})
	for args, want := range map[string]string{
		"": "Connections (connections): now 3", "--node=1": "Connections of node 1, replica (connections): now 2, at most 2", "--node=2": "shop has no node 2",
	} {
		out, _ := run(t, url, append([]string{"db", "metrics", "shop"}, strings.Fields(args)...)...)
		if !strings.Contains(out, want) {
			t.Errorf("%s: %s", args, out)
		}
	}
}

func TestFold(t *testing.T) {
	t.Parallel()
	got := fold([]*float64{new(1.0), new(3.0), nil, nil, new(8.0)}, 3)
	if len(got) != 3 || got[0] != 2 || !math.IsNaN(got[1]) || got[2] != 8 {
		t.Errorf("%v", got)
	}
}
