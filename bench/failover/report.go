package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// Result is what the rounds of one fault on one target came to.
type Result struct {
	Target string  `json:"target"`
	Engine string  `json:"engine"`
	Mode   string  `json:"mode"`
	Fault  string  `json:"fault"`
	Rounds []Round `json:"rounds"`
	// Error is why there are fewer rounds than asked for.
	Error   string  `json:"error,omitempty"`
	Summary Summary `json:"summary"`

	kind string // the fault's, alike for all scopes
}

// Summary is a line of the table.
type Summary struct {
	GapP50     time.Duration  `json:"gap_p50_ns"`
	GapMax     time.Duration  `json:"gap_max_ns"`
	HealthyP50 time.Duration  `json:"healthy_p50_ns"`
	HealthyMax time.Duration  `json:"healthy_max_ns"`
	Acked      int            `json:"acknowledged"`
	Lost       int            `json:"lost"`
	Duplicates int            `json:"duplicates"`
	Stale      int            `json:"stale_writes"`
	Errors     map[string]int `json:"other_errors,omitempty"`
	// Ratio is this peer's median gap by steward's, 0 for steward itself.
	Ratio float64 `json:"gap_p50_by_steward,omitempty"`
}

func summarise(rounds []Round) Summary {
	s := Summary{Errors: map[string]int{}}
	var gaps, healthy []time.Duration
	for _, r := range rounds {
		gaps, healthy = append(gaps, r.Gap), append(healthy, r.Healthy)
		s.Acked += r.Acked
		s.Lost += r.Lost
		s.Duplicates += r.Duplicates
		s.Stale += r.Stale
		for text, n := range r.Errors {
			s.Errors[text] += n
		}
	}
	s.GapP50, s.GapMax = middle(gaps)
	s.HealthyP50, s.HealthyMax = middle(healthy)
	return s
}

// middle is the median, by nearest rank, and the largest.
func middle(d []time.Duration) (p50, largest time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(d))
	return sorted[(len(sorted)-1)/2], sorted[len(sorted)-1]
}

// compare sets the peers' ratios: each against steward under the same kind of
// fault and in the same mode.
func compare(results []Result) {
	for i := range results {
		peer := &results[i]
		own := slices.IndexFunc(results, func(r Result) bool {
			return r.Target == "steward" && r.Engine == peer.Engine && r.Mode == peer.Mode && r.kind == peer.kind
		})
		if own < 0 || peer.Target == "steward" || results[own].Summary.GapP50 == 0 {
			continue
		}
		peer.Summary.Ratio = float64(peer.Summary.GapP50) / float64(results[own].Summary.GapP50)
	}
}

func printTable(w io.Writer, results []Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "engine\tmode\tfault\ttarget\trounds\tgap p50\tgap max\tacked\tlost\tduplicates\tstale\tother errors\thealthy p50\thealthy max\tby steward")
	for _, r := range results {
		s := r.Summary
		ratio := ""
		if s.Ratio != 0 {
			ratio = fmt.Sprintf("%.1f", s.Ratio)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", r.Engine, r.Mode, r.Fault, r.Target, len(r.Rounds),
			seconds(s.GapP50), seconds(s.GapMax), s.Acked, s.Lost, s.Duplicates, s.Stale, total(s.Errors),
			seconds(s.HealthyP50), seconds(s.HealthyMax), ratio)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range results {
		if r.Error != "" {
			fmt.Fprintf(w, "%s %s %s: %s\n", r.Target, r.Mode, r.Fault, r.Error)
		}
		for _, text := range slices.Sorted(maps.Keys(r.Summary.Errors)) {
			fmt.Fprintf(w, "%s %s %s: %d times %s\n", r.Target, r.Mode, r.Fault, r.Summary.Errors[text], text)
		}
	}
	return nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

func total(counts map[string]int) int {
	sum := 0
	for n := range maps.Values(counts) {
		sum += n
	}
	return sum
}
