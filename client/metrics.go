package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Metrics are what was measured of a database, in steps of Step seconds.
type Metrics struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Step    int      `json:"step"`
	Metrics []Metric `json:"metrics"`
}

// Metric is one metric, of all nodes together and of each. Values have an item for each step, nil where nothing is known; Min
// and Max are the lowest and the highest in the step.
type Metric struct {
	Name        string       `json:"name"`
	Label       string       `json:"label"`
	Description string       `json:"description"`
	Unit        string       `json:"unit"`
	Type        string       `json:"type"`
	Across      string       `json:"across"`
	Values      []*float64   `json:"values"`
	Min         []*float64   `json:"min"`
	Max         []*float64   `json:"max"`
	Nodes       []NodeSeries `json:"nodes"`
}

// NodeSeries is a metric of one node.
type NodeSeries struct {
	Node   int        `json:"node"`
	Role   string     `json:"role"`
	Values []*float64 `json:"values"`
	Min    []*float64 `json:"min"`
	Max    []*float64 `json:"max"`
}

// MetricsQuery is what to ask for; the server chooses what is left out.
type MetricsQuery struct {
	From, To time.Time
	Step     time.Duration
	Names    []string
}

// Metrics reads what was measured of a database.
func (c *Client) Metrics(ctx context.Context, d Database, q MetricsQuery) (Metrics, error) {
	values := url.Values{}
	for name, t := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !t.IsZero() {
			values.Set(name, t.UTC().Format("2006-01-02T15:04:05"))
		}
	}
	if q.Step > 0 {
		values.Set("step", strconv.Itoa(int(q.Step.Seconds())))
	}
	if len(q.Names) > 0 {
		values.Set("metric", strings.Join(q.Names, ","))
	}
	return ask[Metrics](ctx, c, http.MethodGet, d.Path()+"/metrics?"+values.Encode(), nil)
}
