package monitor_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/monitor"
)

func unpack(t interface{ Fatal(...any) }, start time.Time, packed []byte) []monitor.Sample {
	var found []monitor.Sample
	if err := monitor.UnpackSamples(start, packed, func(s monitor.Sample) bool { found = append(found, s); return true }); err != nil {
		t.Fatal(err)
	}
	return found
}

// TestPack: what was packed comes back, in the order of service and time.
func TestPack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) monitor.Sample {
			return monitor.Sample{
				Service: monitor.ServiceID(rapid.Int64Range(1, 1<<38).Draw(t, "service")),
				Started: start.Add(time.Duration(rapid.IntRange(0, 1e6).Draw(t, "started")) * 10 * time.Millisecond),
				Took:    time.Duration(rapid.IntRange(0, 255_000).Draw(t, "took")) * time.Millisecond,
				Class:   rapid.SampledFrom([]monitor.Class{monitor.OK, monitor.Refused, monitor.TextNotFound, monitor.Inconclusive}).Draw(t, "class"),
			}
		})).Draw(t, "samples")
		began, packed := monitor.PackSamples(slices.Clone(want))
		got := unpack(t, began, packed)
		sort := func(s []monitor.Sample) {
			slices.SortStableFunc(s, func(a, b monitor.Sample) int {
				if a.Service != b.Service {
					return int(a.Service - b.Service)
				}
				if c := a.Started.Compare(b.Started); c != 0 {
					return c
				}
				if a.Took != b.Took {
					return int(a.Took - b.Took)
				}
				return slices.Compare([]byte(a.Class), []byte(b.Class))
			})
		}
		sort(want)
		sort(got)
		if len(want)+len(got) > 0 && !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
	})
}

// TestPackedSize: a check in the steady state takes few bytes.
func TestPackedSize(t *testing.T) {
	var samples []monitor.Sample
	for service := range 40 {
		for look := range 2 {
			samples = append(samples, monitor.Sample{
				Service: monitor.ServiceID(1000 + service*256), Class: monitor.OK,
				Started: start.Add(time.Duration(service*733+look*30_000) * time.Millisecond), Took: 87 * time.Millisecond,
			})
		}
	}
	if _, packed := monitor.PackSamples(samples); len(packed) > 6*len(samples) {
		t.Errorf("%d samples in %d bytes", len(samples), len(packed))
	}
}

func FuzzUnpack(f *testing.F) {
	_, packed := monitor.PackSamples([]monitor.Sample{{Service: 1, Started: start, Class: monitor.OK}, {Service: 3, Started: start, Class: monitor.TLS}})
	f.Add(packed)
	f.Fuzz(func(t *testing.T, packed []byte) {
		n := 0
		_ = monitor.UnpackSamples(start, packed, func(s monitor.Sample) bool {
			if n++; n > len(packed) {
				t.Fatal("more samples than bytes")
			}
			return s.Class != ""
		})
	})
}

func TestHour(t *testing.T) {
	var h monitor.Hour
	if h.Uptime() != nil || h.Mean() != 0 {
		t.Error("without checks nothing is known")
	}
	for _, s := range []monitor.Sample{{Took: 10 * time.Millisecond, Class: monitor.OK}, {Took: 30 * time.Millisecond, Class: monitor.TLS}, {Took: time.Hour, Class: monitor.Inconclusive}} {
		h.Add(s)
	}
	h.Merge(monitor.Hour{Checks: 2, Total: 40 * time.Millisecond, Longest: 25 * time.Millisecond})
	if up := h.Uptime(); *up != 75 || h.Mean() != 20*time.Millisecond || h.Longest != 30*time.Millisecond {
		t.Errorf("%v %+v", *up, h)
	}
}
