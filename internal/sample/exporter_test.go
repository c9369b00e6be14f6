package sample

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/monitor"
)

var texts = []string{"web-1200", "web-1201", "mail-1200", "mail-1201"}

func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".prom")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestNodeExporterTexts: what is expected was added up by hand from the texts.
func TestNodeExporterTexts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]monitor.Reading{
		"web-1200": {
			// user + nice + system + softirq: 5000.25+12.5+1000.75+30.5 and 4000.5+7.25+900.25+20.
			Busy: monitor.Counters{"0": 6044, "1": 4928},
			// 1048576000 + 524288000; dm-0 lies on sda.
			Disk: monitor.Counters{"sda": 1572864000},
			In:   monitor.Counters{"eth0": 98765432}, Out: monitor.Counters{"eth0": 12345678},
			Swap: new(134217728.0), // 2147479552 - 2013261824
		},
		"web-1201": {
			Busy: monitor.Counters{"0": 6086.5, "1": 4940.5}, Disk: monitor.Counters{"sda": 1576140800},
			In: monitor.Counters{"eth0": 99965432}, Out: monitor.Counters{"eth0": 12795678}, Swap: new(201326592.0),
		},
		"mail-1200": {
			// The machine shows a partition without its disk.
			Busy: monitor.Counters{"0": 929001.5}, Disk: monitor.Counters{"vda1": 1665e9},
			In: monitor.Counters{"eth0": 650e9}, Out: monitor.Counters{"eth0": 750e9}, Swap: new(0.0),
		},
		"mail-1201": {
			Busy: monitor.Counters{"0": 4.5}, Disk: monitor.Counters{"vda1": 1500000},
			In: monitor.Counters{"eth0": 60000}, Out: monitor.Counters{"eth0": 30000}, Swap: new(0.0),
		},
	} {
		got, err := parse(strings.NewReader(read(t, name)))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v -want +got\n%s", name, err, diff)
		}
	}
}

func TestTextsOfOtherKinds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		want monitor.Reading
		err  string
	}{
		"nothing":             {"", monitor.Reading{}, "none of a node_exporter's metrics"},
		"a web page":          {"<html><body>It works!</body></html>", monitor.Reading{}, "none of a node_exporter's metrics"},
		"another exporter":    {"pg_up 1\nnode_cpu_seconds_totals{cpu=\"0\"} 3\n", monitor.Reading{}, "none of a node_exporter's metrics"},
		"a broken sample":     {"node_cpu_seconds_total{cpu=\"0\",mode=\"user\" 1\n", monitor.Reading{}, "text format"},
		"a broken other one":  {"other{ 1\nnode_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 1\n", monitor.Reading{Busy: monitor.Counters{"0": 1}}, ""},
		"cores alone":         {"node_cpu_seconds_total{mode=\"idle\",cpu=\"0\"} 5\nnode_cpu_seconds_total{mode=\"user\",cpu=\"0\"} 1 1700000000000\n", monitor.Reading{Busy: monitor.Counters{"0": 1}}, ""},
		"no numbers":          {"node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} NaN\nnode_cpu_seconds_total{cpu=\"1\",mode=\"user\"} -1\nnode_cpu_seconds_total{cpu=\"2\",mode=\"user\"} +Inf\nnode_cpu_seconds_total{cpu=\"3\",mode=\"user\"} 1e300\n", monitor.Reading{Busy: monitor.Counters{}}, ""},
		"one direction":       {"node_network_receive_bytes_total{device=\"eth0\"} 7\nnode_disk_read_bytes_total{device=\"sda\"} 7\n", monitor.Reading{In: monitor.Counters{"eth0": 7}}, ""},
		"swap that can't be":  {"node_memory_SwapTotal_bytes 1\nnode_memory_SwapFree_bytes 2\n", monitor.Reading{}, ""},
		"a line without end":  {"node_cpu_seconds_total{cpu=\"" + strings.Repeat("0", maxLine), monitor.Reading{}, "a line has more than"},
		"a text without end":  {strings.Repeat("other_metric 1\n", maxText/15+1), monitor.Reading{}, "it has more than"},
		"carriage returns":    {"node_memory_SwapTotal_bytes 3\r\nnode_memory_SwapFree_bytes 1\r\n", monitor.Reading{Swap: new(2.0)}, ""},
		"the last line's end": {"node_memory_SwapTotal_bytes 3\nnode_memory_SwapFree_bytes 1", monitor.Reading{Swap: new(2.0)}, ""},
	} {
		got, err := parse(strings.NewReader(test.text))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", name, err, test.err)
			}
			continue
		}
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v -want +got\n%s", name, err, diff)
		}
	}
}

func TestReadOverHTTP(t *testing.T) {
	t.Parallel()
	connections := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			connections[r.RemoteAddr] = true
			fmt.Fprint(w, read(t, "web-1200"))
		case "/elsewhere":
			http.Redirect(w, r, "/metrics", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	e := NewExporters()
	for range 2 {
		r, err := e.Read(t.Context(), server.URL+"/metrics")
		if err != nil || r.Busy["0"] != 6044 || r.At.IsZero() {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if len(connections) != 2 {
		t.Errorf("%d connections for two readings", len(connections))
	}
	for path, want := range map[string]string{"/elsewhere": "302", "/none": "404"} {
		if _, err := e.Read(t.Context(), server.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	server.Close()
	if _, err := e.Read(t.Context(), server.URL+"/metrics"); err == nil {
		t.Error("a server that is gone was read")
	}
}

// FuzzMetrics: no text makes it panic, and what it reads is a count of something.
func FuzzMetrics(f *testing.F) {
	for _, name := range texts {
		f.Add(read(f, name))
	}
	f.Add("node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 1e308\nnode_cpu_seconds_total{cpu=\"0\",mode=\"nice\"} 1e308\n")
	f.Add("node_cpu_seconds_total{cpu=\"\\n\\\"\\\\\",mode=\"user\",} 0x1p3 7\nnode_cpu_seconds_total 1\nnode_memory_SwapFree_bytes{a=\"b\"} 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		lines := strings.Count(text, "\n") + 1
		for _, c := range []monitor.Counters{r.Busy, r.Disk, r.In, r.Out} {
			if len(c) > lines {
				t.Fatalf("%d devices of %d lines", len(c), lines)
			}
			for device, v := range c {
				if !(v >= 0 && v <= maxCount*float64(lines)) {
					t.Errorf("%q is %v", device, v)
				}
			}
		}
		if r.Swap != nil && !(*r.Swap >= 0) {
			t.Errorf("swap is %v", *r.Swap)
		}
		var m monitor.Meter
		m.Add(r)
		m.Add(r)
	})
}
