package alert

import (
	"math"
	"strconv"
	"time"

	"steward/internal/cluster"
	"steward/internal/measure"
)

// History is what was measured lately of a database's nodes, of the metrics that rules ask for.
type History struct {
	of    cluster.ID
	steps int
	nodes map[int]*nodeHistory
}

// nodeHistory has a ring of values for each metric, NaN where nothing is known. A step's place follows from its time.
type nodeHistory struct {
	rings map[measure.Metric][]float32
	// upto is the number of the newest step, since 1970.
	upto int64
}

// NewHistory keeps so much of a database.
func NewHistory(of cluster.ID, length time.Duration) *History {
	return &History{of: of, steps: int(length / measure.Every), nodes: map[int]*nodeHistory{}}
}

// stepOf is the number of the step that a moment is in.
func stepOf(at time.Time) int64 { return at.Unix() / int64(measure.Every/time.Second) }

// Add notes points of a node's metric, a step each, the first of which begins at start. What is too old is left out.
func (h *History) Add(node int, metric measure.Metric, start time.Time, points []measure.Point) {
	n := h.nodes[node]
	if n == nil {
		n = &nodeHistory{rings: map[measure.Metric][]float32{}}
		h.nodes[node] = n
	}
	ring := n.rings[metric]
	if ring == nil {
		ring = make([]float32, h.steps)
		for i := range ring {
			ring[i] = float32(math.NaN())
		}
		n.rings[metric] = ring
	}
	first := stepOf(start)
	n.advance(first + int64(len(points)) - 1)
	for i, p := range points {
		if at := first + int64(i); p.Known() && at > n.upto-int64(h.steps) {
			ring[at%int64(h.steps)] = float32(p.Mean)
		}
	}
}

// advance forgets what the steps up to a new one take the place of.
func (n *nodeHistory) advance(to int64) {
	for _, ring := range n.rings {
		length := int64(len(ring))
		for at := max(n.upto+1, to-length+1); at <= to; at++ {
			ring[at%length] = float32(math.NaN())
		}
	}
	n.upto = max(n.upto, to)
}

// valueAt is a ring's value of a step that it has room for.
func valueAt(ring []float32, step int64) float64 {
	if len(ring) == 0 {
		return unknown
	}
	return float64(ring[step%int64(len(ring))])
}

// value is a metric's aggregate over a period that ends at a moment, and how many of its steps are known.
func (n *nodeHistory) value(metric measure.Metric, of Aggregate, period time.Duration, end time.Time) (v float64, known int) {
	ring := n.rings[metric]
	length := int64(len(ring))
	if length == 0 {
		return unknown, 0
	}
	last := stepOf(end)
	begin := last - int64(period/measure.Every)
	var sum measure.Summary
	total := 0.0
	for at := max(last, n.upto+1) - length; at < min(last, n.upto+1); at++ {
		if one := valueAt(ring, at); !math.IsNaN(one) && at >= begin {
			sum.Add(measure.At(one))
			total += one
			known++
		}
	}
	p := sum.Point()
	return map[Aggregate]float64{Average: p.Mean, Lowest: p.Min, Highest: p.Max, Sum: total}[of], known
}

// expects reports whether a metric has been known since the node has the role that it has: what a replica told, a primary may not tell.
func (n *nodeHistory) expects(metric measure.Metric, end time.Time) bool {
	ring := n.rings[metric]
	role := math.NaN()
	for at := n.upto; at >= max(stepOf(end), n.upto+1)-int64(len(ring)); at-- {
		if was := valueAt(n.rings[measure.Primary], at); !math.IsNaN(was) {
			if !math.IsNaN(role) && was != role {
				return false
			}
			role = was
		}
		if !math.IsNaN(valueAt(ring, at)) {
			return true
		}
	}
	return false
}

// labels are a node's dimensions at the end of what is known.
func (h *History) labels(node int, end time.Time) Labels {
	role := "secondary"
	if v, known := h.nodes[node].value(measure.Primary, Highest, measure.Slice, end); known > 0 && v >= 0.5 {
		role = "primary"
	}
	id := strconv.FormatInt(int64(h.of), 10)
	return Labels{ByEntity: id, ByNode: id + "-" + strconv.Itoa(node), ByRole: role}
}
