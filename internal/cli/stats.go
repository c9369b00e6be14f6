package cli

import (
	"context"
	"fmt"
	"time"

	"steward/client"
)

type statsCommand struct {
	apiFlags
	jsonFlag
}

func (f *statsCommand) Run(ctx context.Context, s *streams, c *client.Client) error {
	stats, err := c.Stats(ctx)
	if err != nil {
		return err
	}
	if f.JSON {
		return printJSON(s.out, stats)
	}
	now := time.Now()
	fmt.Fprintf(s.out, "The last 24 hours of all machines together, to %s UTC\n", now.UTC().Format("15:04"))
	for _, m := range []struct {
		name, unit string
		points     []client.Stat
	}{
		{"cpu", "cores", stats.CPU},
		{"swap", "B", stats.Swap},
		{"disk", "B/s", stats.Disk},
		{"net in", "bit/s", stats.NetIn},
		{"net out", "bit/s", stats.NetOut},
	} {
		fmt.Fprintf(s.out, "%-7s │%s│ %s\n", m.name, plot(m.points, now), summary(m.points, m.unit))
	}
	return nil
}

const (
	// plotWidth is in characters: each of them stands for twenty minutes.
	plotWidth = 72
	plotSpan  = 24 * time.Hour
)

// plot draws the points up to now, from 0 to their highest; where there are none it
// stays empty.
func plot(points []client.Stat, now time.Time) string {
	sums, counts := make([]float64, plotWidth), make([]int, plotWidth)
	begin := now.Add(-plotSpan)
	for _, p := range points {
		if at := int(time.UnixMilli(p.X).Sub(begin) * plotWidth / plotSpan); at >= 0 && at < plotWidth {
			sums[at] += p.Y
			counts[at]++
		}
	}
	means := make([]*float64, plotWidth)
	for i, n := range counts {
		if n > 0 {
			means[i] = new(sums[i] / float64(n))
		}
	}
	return spark(means, plotWidth)
}

// summary is the newest point and the highest.
func summary(points []client.Stat, unit string) string {
	if len(points) == 0 {
		return "no data"
	}
	highest := 0.0
	for _, p := range points {
		highest = max(highest, p.Y)
	}
	return fmt.Sprintf("now %s, at most %s", quantity(points[len(points)-1].Y, unit), quantity(highest, unit))
}

// quantity shows a number with three digits and the prefix that its size wants.
func quantity(v float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for v >= 1000 && i < len(prefixes)-1 {
		v /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s%s", v, prefixes[i], unit)
}
