package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/monitor"
)

func TestStats(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stats := func() string {
		t.Helper()
		r := b.send("GET", "/v4/managed/stats", b.readOnly, "")
		if r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		return strings.TrimSpace(r.body)
	}
	if got := stats(); got != `{"data":{"cpu":[],"disk":[],"net_in":[],"net_out":[],"swap":[]}}` {
		t.Errorf("without data: %s", got)
	}
	web, mail := b.machine(), b.machineOf("mail")
	now := time.Now().UTC().Truncate(monitor.Spacing)
	points := []monitor.Point{
		{Machine: web.ID, At: now.Add(-24*time.Hour - monitor.Spacing), Covered: monitor.Spacing, Load: monitor.Load{CPU: new(9.0)}},
		{Machine: web.ID, At: now.Add(-2 * monitor.Spacing), Covered: monitor.Spacing, Load: monitor.Load{CPU: new(0.5), Swap: new(1024.0)}},
		{Machine: mail.ID, At: now.Add(-2 * monitor.Spacing), Covered: monitor.Spacing, Load: monitor.Load{CPU: new(1.25), NetIn: new(8.0), NetOut: new(16.0)}},
		{Machine: mail.ID, At: now.Add(-monitor.Spacing), Covered: time.Minute, Load: monitor.Load{Disk: new(0.1)}},
	}
	if err := b.store.AddPoints(t.Context(), points); err != nil {
		t.Fatal(err)
	}
	first, second := now.Add(-2*monitor.Spacing).UnixMilli(), now.Add(-monitor.Spacing).UnixMilli()
	want := fmt.Sprintf(`{"data":{"cpu":[{"x":%[1]d,"y":1.75}],"disk":[{"x":%[2]d,"y":0.1}],"net_in":[{"x":%[1]d,"y":8}],"net_out":[{"x":%[1]d,"y":16}],"swap":[{"x":%[1]d,"y":1024}]}}`, first, second)
	if got := stats(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if r := b.send("GET", "/v4/managed/stats", b.restricted, ""); r.StatusCode != 403 {
		t.Errorf("a restricted user: %d %s", r.StatusCode, r.body)
	}
}
