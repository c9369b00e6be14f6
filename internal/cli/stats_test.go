package cli

import (
	"strings"
	"testing"
	"time"

	"steward/client"
)

func TestPlot(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	point := func(before time.Duration, y float64) client.Stat {
		return client.Stat{X: now.Add(-before).UnixMilli(), Y: y}
	}
	for name, test := range map[string]struct {
		points []client.Stat
		want   string
	}{
		"nothing": {nil, strings.Repeat(" ", 72)},
		"zero":    {[]client.Stat{point(5*time.Minute, 0)}, strings.Repeat(" ", 71) + "▁"},
		"a gap between, and too old": {
			[]client.Stat{point(25*time.Hour, 9), point(24*time.Hour, 4), point(50*time.Minute, 0), point(10*time.Minute, 6), point(5*time.Minute, 10)},
			"▅" + strings.Repeat(" ", 68) + "▁ █",
		},
	} {
		if got := plot(test.points, now); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestQuantities(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]float64{"0 B": 0, "0.917 B": 55.0 / 60, "999 B": 999, "1.5 kB": 1500, "201 MB": 201326592, "1.2e+03 PB": 1.2e18} {
		if got := quantity(v, "B"); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	if got := summary([]client.Stat{{Y: 3000}, {Y: 2}}, "bit/s"); got != "now 2 bit/s, at most 3 kbit/s" {
		t.Error(got)
	}
	if got := summary(nil, "B"); got != "no data" {
		t.Error(got)
	}
}
