package measure

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// near reports whether a value that was kept is right to 1/4096.
func near(kept, v float64) bool {
	switch {
	case math.IsNaN(v):
		return math.IsNaN(kept)
	case v < math.Ldexp(1, lowExponent)*(1-1./4096):
		return kept == 0 || kept <= math.Ldexp(1, lowExponent)
	}
	return math.Abs(kept-v) <= v/4096
}

func values() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Just(math.NaN()), rapid.Just(0.0), rapid.Float64Range(0, 100), rapid.Float64Range(0, 1e15),
		rapid.Map(rapid.IntRange(0, 5000), func(n int) float64 { return float64(n) }),
	)
}

// TestPackedIsRight: what is packed comes back to within what is promised, in no more than three bytes a value.
func TestPackedIsRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.Bool().Draw(t, "spread")
		all := rapid.SliceOfN(values(), 1, 400).Draw(t, "values")
		points := make([]Point, len(all))
		for i, v := range all {
			points[i] = At(v)
			if spread && !math.IsNaN(v) {
				points[i].Min, points[i].Max = v*rapid.Float64Range(0, 1).Draw(t, "min"), v*rapid.Float64Range(1, 10).Draw(t, "max")
			}
		}
		packed := Pack(points, spread)
		each := 1
		if spread {
			each = 3
		}
		if len(packed) > 1+3*each*len(points) {
			t.Errorf("%d bytes for %d values", len(packed), each*len(points))
		}
		got, err := Unpack(packed, len(points))
		if err != nil || len(got) != len(points) {
			t.Fatalf("%d points, %v", len(got), err)
		}
		for i, p := range points {
			if !near(got[i].Mean, p.Mean) || !near(got[i].Min, p.Min) || !near(got[i].Max, p.Max) {
				t.Errorf("%v came back as %v", p, got[i])
			}
			if p.Mean == math.Trunc(p.Mean) && p.Mean <= 4096 && got[i].Mean != p.Mean {
				t.Errorf("%v came back as %v", p.Mean, got[i].Mean)
			}
		}
	})
}

func TestConstantSeriesIsSmall(t *testing.T) {
	t.Parallel()
	points := make([]Point, Fine.Points())
	for i := range points {
		points[i] = At(1 << 30)
	}
	if packed := Pack(points, false); len(packed) > 8 {
		t.Errorf("an hour of the same takes %d bytes", len(packed))
	}
}

// FuzzUnpack: whatever lies in the store, reading it doesn't panic and ends with as many points as were asked for.
func FuzzUnpack(f *testing.F) {
	f.Add(Pack([]Point{At(1), At(1), Gap(), At(7e9)}, false), 10)
	f.Add(Pack([]Point{{2, 1, 3}, {2, 1, 3}}, true), 2)
	f.Add([]byte{packedValues, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, 100)
	f.Fuzz(func(t *testing.T, packed []byte, most int) {
		most = min(max(most, 0), 1000)
		if points, err := Unpack(packed, most); err == nil && len(points) != most {
			t.Errorf("%d points of %d", len(points), most)
		}
		_ = UnpackSlice(packed, 3, func(m Metric, points []Point) {
			if m == 0 || int(m) >= Count || len(points) != 3 {
				t.Errorf("metric %d with %d points", m, len(points))
			}
		})
	})
}

func TestSlices(t *testing.T) {
	t.Parallel()
	steps := []Values{Unknown(), Unknown(), Unknown()}
	steps[0][CPUUsage], steps[2][CPUUsage], steps[1][DatabaseSize] = 12.5, 25, 1<<40
	found := map[Metric][]Point{}
	if err := UnpackSlice(PackSlice(steps), 3, func(m Metric, points []Point) { found[m] = points }); err != nil {
		t.Fatal(err)
	}
	cpu, size := found[CPUUsage], found[DatabaseSize]
	if len(found) != 2 || cpu[0].Mean != 12.5 || cpu[1].Known() || cpu[2].Mean != 25 || size[0].Known() || size[1].Mean != 1<<40 {
		t.Errorf("%v", found)
	}
	if len(PackSlice([]Values{Unknown()})) != 0 {
		t.Error("nothing takes room")
	}
}

func TestDefinitionsAreByNumber(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for i, d := range Definitions() {
		if int(d.Metric) != i+1 || names[d.Name] || d.Label == "" || d.Doc == "" {
			t.Errorf("%+v at %d", d, i)
		}
		names[d.Name] = true
	}
	if len(names) != Count-1 {
		t.Errorf("%d definitions of %d metrics", len(names), Count-1)
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
	reading := func(after time.Duration, life string, commits, cpu, hits, misses float64) Reading {
		r := NewReading(begin.Add(after))
		r.Life, r.CPUSeconds, r.CPUs, r.Hits, r.Misses = life, cpu, 2, hits, misses
		r.Set(Commits, commits)
		r.Set(Connections, 7)
		return r
	}
	nan := math.NaN()
	var m Meter
	for _, step := range []struct {
		name              string
		r                 Reading
		commits, cpu, hit float64
	}{
		{"the first says nothing of rates", reading(0, "a", 1000, 5, 10, 10), nan, nan, nan},
		{"rates", reading(10*time.Second, "a", 1500, 10, 100, 20), 50, 25, 90},
		{"nothing was looked for", reading(20*time.Second, "a", 1500, 10, 100, 20), 0, 0, nan},
		{"a reset of the statistics", reading(30*time.Second, "a", 3, 11, 2, 1), nan, 5, nan},
		{"after it", reading(40*time.Second, "a", 103, 11, 3, 1), 10, 0, 100},
		{"another life of the server", reading(50*time.Second, "b", 1e6, 100, 1e6, 1e6), nan, nan, nan},
		{"after a gap", reading(150*time.Second, "b", 2e6, 200, 1e6, 1e6), 10000, 50, nan},
		{"at the same moment", reading(150*time.Second, "b", 3e6, 200, 1e6, 1e6), nan, nan, nan},
	} {
		v := m.Add(step.r)
		for _, c := range []struct{ got, want float64 }{{v[Commits], step.commits}, {v[CPUUsage], step.cpu}, {v[CacheHitRatio], step.hit}, {v[Connections], 7}} {
			if c.got != c.want && !(math.IsNaN(c.got) && math.IsNaN(c.want)) {
				t.Errorf("%s: %v, want %v", step.name, c.got, c.want)
			}
		}
	}
}

func TestSumUpAndCombine(t *testing.T) {
	t.Parallel()
	var sum Summary
	if sum.Point().Known() {
		t.Errorf("of nothing: %v", sum.Point())
	}
	for _, p := range []Point{At(1), Gap(), At(3)} {
		sum.Add(p)
	}
	if want := (Point{2, 1, 3}); sum.Point() != want {
		t.Errorf("%v, want %v", sum.Point(), want)
	}
	nodes := []Series{{Points: []Point{{2, 1, 3}, Gap(), Gap()}}, {Points: []Point{{4, 4, 9}, At(5), Gap()}}}
	for across, want := range map[Across]Point{Sum: {6, 5, 12}, Mean: {3, 2.5, 6}, Max: {4, 4, 9}} {
		all := Combine(nodes, across)
		if all[0] != want || all[1] != At(5) || all[2].Known() {
			t.Errorf("%s: %v", across, all)
		}
	}
}

// TestFloor holds for times before 1970, too: whatever is asked for.
func TestFloor(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{Every, time.Hour, Coarse.Block} {
		for _, at := range []time.Time{time.Unix(1769853661, 5), time.Unix(-1, 0), time.Unix(0, 0)} {
			f := Floor(at, step)
			if f.After(at) || at.Sub(f) >= step || f.Unix()%int64(step/time.Second) != 0 {
				t.Errorf("%v to %v is %v", at, step, f)
			}
		}
	}
}
