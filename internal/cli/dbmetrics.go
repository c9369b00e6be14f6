package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"
	"golang.org/x/term"

	"steward/client"
	"steward/internal/wait"
)

type dbMetricsCommand struct {
	apiFlags
	jsonFlag
	databaseArg
	Metric []string      `help:"Names of metrics; the usual ones when left out. --metric=all for all." placeholder:"NAME,…"`
	Last   time.Duration `help:"How far back." default:"1h"`
	Node   *int          `help:"Plot this node's alone, rather than of all together."`
	Follow bool          `help:"Plot anew every ten seconds, until interrupted."`
}

// usual are plotted when nothing is said; a database has those of its engine.
func usual(engine string) []string {
	names := []string{"cpu_usage", "memory_usage", "disk_usage", "connections", "transactions_committed"}
	if engine == "mysql" {
		names[len(names)-1] = "queries"
	}
	return names
}

const allMetrics = "all"

// followEvery is how often databases are measured.
const followEvery = 10 * time.Second

func (f *dbMetricsCommand) Run(ctx context.Context, s *streams, c *client.Client, d client.Database) error {
	q := client.MetricsQuery{Names: f.Metric}
	switch {
	case len(f.Metric) == 0:
		q.Names = usual(d.Engine)
	case len(f.Metric) == 1 && f.Metric[0] == allMetrics:
		q.Names = nil
	}
	for {
		q.From = time.Now().Add(-f.Last)
		found, err := c.Metrics(ctx, d, q)
		if err != nil {
			return err
		}
		if f.Follow && !f.JSON {
			fmt.Fprint(s.out, "\x1b[H\x1b[2J") // to the first line, and nothing else on the screen
		}
		if err := f.print(s.out, d, found); err != nil || !f.Follow {
			return err
		}
		if wait.Sleep(ctx, followEvery) != nil {
			return nil
		}
	}
}

func (f *dbMetricsCommand) print(w io.Writer, d client.Database, found client.Metrics) error {
	if f.JSON {
		return printJSON(w, found)
	}
	fmt.Fprintf(w, "%s from %s to %s UTC, in steps of %v\n", d.Label, found.From, found.To, time.Duration(found.Step)*time.Second)
	width := terminalWidth(w)
	for _, m := range found.Metrics {
		if f.Node != nil {
			n := slices.IndexFunc(m.Nodes, func(s client.NodeSeries) bool { return s.Node == *f.Node })
			if n < 0 {
				return fmt.Errorf("%s has no node %d of which something was measured since then", d.Label, *f.Node)
			}
			m.Label, m.Values = fmt.Sprintf("%s of node %d, %s", m.Label, *f.Node, m.Nodes[n].Role), m.Nodes[n].Values
		}
		fmt.Fprintf(w, "\n%s\n", printableLines(plotMetric(m, found, width)))
	}
	return nil
}

// terminalWidth is that of the terminal, or what fits everywhere.
func terminalWidth(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
	}
	return 80
}

const (
	// axisWidth is left for the numbers beside the plot.
	axisWidth  = 12
	plotHeight = 6
	// leastPlot is the least width with room for the times below.
	leastPlot = 24
)

// plotMetric draws a metric with its axes, under its name.
func plotMetric(m client.Metric, of client.Metrics, width int) string {
	title := fmt.Sprintf("%s (%s)", m.Label, m.Name)
	columns := max(leastPlot, width-axisWidth)
	values := fold(m.Values, columns)
	last, highest := math.NaN(), math.NaN()
	for _, v := range values {
		if !math.IsNaN(v) {
			last = v
			if !(highest >= v) {
				highest = v
			}
		}
	}
	if math.IsNaN(last) {
		return title + "\n  nothing was measured"
	}
	from, errFrom := time.Parse("2006-01-02T15:04:05", of.From)
	to, errTo := time.Parse("2006-01-02T15:04:05", of.To)
	options := []asciigraph.Option{
		asciigraph.Height(plotHeight), asciigraph.LowerBound(0), asciigraph.UpperBound(highest), asciigraph.Offset(2),
		asciigraph.YAxisValueFormatter(func(v float64) string { return fmt.Sprintf("%9s", amount(v, m.Unit)) }),
	}
	if len(values) > columns/2 {
		options = append(options, asciigraph.Width(columns))
	}
	if errFrom == nil && errTo == nil {
		layout := "15:04"
		if to.Sub(from) > 24*time.Hour {
			layout = "Jan 2"
		}
		options = append(options, asciigraph.XAxisRange(float64(from.Unix()), float64(to.Unix())), asciigraph.XAxisTickCount(max(2, columns/leastPlot)),
			asciigraph.XAxisValueFormatter(func(v float64) string { return time.Unix(int64(v), 0).UTC().Format(layout) }))
	}
	return fmt.Sprintf("%s: now %s, at most %s\n%s", title, amount(last, m.Unit), amount(highest, m.Unit), asciigraph.Plot(values, options...))
}

// fold makes at most so many values, each the mean of those it stands for; NaN is a gap.
func fold(values []*float64, most int) []float64 {
	each := max(1, (len(values)+most-1)/most)
	var out []float64
	for len(values) > 0 {
		n := min(each, len(values))
		sum, count := 0.0, 0
		for _, v := range values[:n] {
			if v != nil {
				sum += *v
				count++
			}
		}
		out = append(out, sum/float64(count)) // 0/0 is NaN
		values = values[n:]
	}
	return out
}

// amount is a number in its unit.
func amount(v float64, unit string) string {
	switch unit {
	case "percent":
		return fmt.Sprintf("%.3g%%", v)
	case "byte":
		return quantity(v, "B")
	case "bytes_per_second":
		return quantity(v, "B/s")
	case "ops_per_second", "iops":
		return quantity(v, "/s")
	case "second":
		return quantity(v, "s")
	case "GB":
		return fmt.Sprintf("%.3g GB", v)
	}
	return strings.TrimSpace(quantity(v, ""))
}
