// Package bench measures steward against a floor or a peer in the same run and
// prints ratios, since machines are noisy. `make bench` runs it; docs/performance.md
// holds the figures. Nothing here asserts a time.
package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"steward/internal/kubetest"
	"steward/internal/testnet"
	"steward/test/harness"
)

// TestMain has steward in a network of its own where it may, with the gateway it has as root.
func TestMain(m *testing.M) {
	code := testnet.Run(m)
	kubetest.Stop()
	harness.RemoveBinaries()
	os.Exit(code)
}

// quantile of the durations, by nearest rank.
func quantile(d []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// report prints one line for people and one metric for benchstat.
func report(b *testing.B, name string, value float64, unit, goal string) {
	b.ReportMetric(value, unit)
	fmt.Printf("%-44s %8.3f %-22s goal %s\n", name, value, unit, goal)
}
