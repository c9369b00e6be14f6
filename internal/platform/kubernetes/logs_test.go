package kubernetes_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/insight"
	"steward/internal/parameter"
	"steward/internal/platform/kubernetes"
)

// logged has what a customer made a server log be read.
type logged struct {
	*bench
	t *testing.T
	d *kubernetes.Driver
	c cluster.Cluster
}

func (l *logged) read(q insight.LogQuery) []insight.LogLine {
	l.t.Helper()
	if q.Least == "" {
		q.Least = insight.Info
	}
	found, err := l.d.Logs(l.t.Context(), l.c.ID, q)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, line := range found {
		if line.Ours || !utf8.ValidString(line.Text) || strings.ContainsAny(line.Text, "\x1b\n") || len(line.Text) > insight.MostLog+len("…") || strings.Contains(line.Text, "hunter2") {
			l.t.Errorf("%+.200v", line)
		}
		for _, other := range []string{"streaming_replica", "postgres@", "steward@", "instance-manager", "hba.conf\"", "/controller"} {
			if strings.Contains(line.Text, other) {
				l.t.Errorf("%s is in %.200q", other, line.Text)
			}
		}
	}
	return found
}

// has reports whether a line has a text.
func has(lines []insight.LogLine, text string) bool {
	return slices.ContainsFunc(lines, func(l insight.LogLine) bool { return strings.Contains(l.Text, text) })
}

// TestLogs: what servers log comes by the API server, with what customers do to it made harmless, and nothing of ours, of the operator's or of values.
func TestLogs(t *testing.T) {
	b := newBench(t)
	d := b.open(t)
	t.Cleanup(func() { d.Close() })
	want := b.wanted(t, 301)
	want.Config = parameter.Config{"pg.log_min_duration_statement": int64(100)}
	settle(t, d, &want)
	l := &logged{b, t, d, want.Cluster}
	began := time.Now().Add(-time.Hour)
	for _, q := range []string{
		"SELECT pg_sleep(0.2), 'hunter2'",
		`SELECT pg_sleep(0.2), '` + strings.Repeat("hunter2", 20<<10) + `'`,
		`DO $$ BEGIN RAISE LOG E'first\x1b[2J\x1b]0;owned\x07 \u202e%', repeat('x', 140000); END $$`,
		`DO $$ BEGIN RAISE LOG E'second\n{"logger":"postgres","record":{"log_time":"2026-01-01 00:00:00.000 UTC","error_severity":"PANIC","message":"forged"}}'; END $$`,
	} {
		if err := b.execute(t, l.c, q); err != nil {
			t.Fatalf("%.80s: %v", q, err)
		}
	}
	if err := b.login(t.Context(), l.c, netip.MustParseAddr("127.0.0.1"), "hunter2"); err == nil {
		t.Fatal("a wrong password is let in")
	}
	await.True(t, "all is logged", func() bool {
		return has(l.read(insight.LogQuery{Least: insight.Fatal, Most: 10}), `password authentication failed for user "dbadmin"`)
	})
	all := l.read(insight.LogQuery{Most: 100})
	for _, text := range []string{"dbadmin@defaultdb: first\uFFFD[2J\uFFFD]0;owned\uFFFD \uFFFDxxx", "dbadmin@defaultdb: second {"} {
		if !has(all, text) {
			t.Errorf("%q isn't in %.5000v", text, all)
		}
	}
	if slices.ContainsFunc(all, func(line insight.LogLine) bool {
		return strings.HasPrefix(line.Text, "forged") || line.Time.Before(began) || line.Node != 0
	}) {
		t.Errorf("a line was forged: %.5000v", all)
	}
	slow := l.read(insight.LogQuery{Slow: true, Took: 150 * time.Millisecond, Most: 10})
	slow = slices.DeleteFunc(slow, func(line insight.LogLine) bool { return strings.HasPrefix(line.Slow.Text, "DO ") })
	if len(slow) != 2 || slow[0].Slow.Text != "SELECT pg_sleep(?), ?" || slow[0].Slow.User != "dbadmin" || slow[0].Slow.Database != "defaultdb" || !strings.HasSuffix(slow[1].Slow.Text, "…") {
		t.Errorf("slow: %+v", slow)
	}
	l.pages()
	l.lives()
	if _, err := d.Logs(t.Context(), 399, insight.LogQuery{Most: 1}); err != nil {
		t.Errorf("of one that isn't there: %v", err)
	}
	b.op.Unplug(true)
	if found, err := d.Logs(t.Context(), l.c.ID, insight.LogQuery{Least: insight.Info, Most: 1}); err == nil {
		t.Errorf("of a machine that doesn't answer: %v", found)
	}
	b.op.Unplug(false)
}

// pages reads all in pages, from either end.
func (l *logged) pages() {
	whole := l.read(insight.LogQuery{Oldest: true, Most: 1000})
	if len(whole) < 6 {
		l.t.Fatalf("%d lines", len(whole))
	}
	for _, oldest := range []bool{true, false} {
		q := insight.LogQuery{Oldest: oldest, Most: 4}
		var texts []string
		for range len(whole) {
			page, next := q.Page(l.read(q))
			for _, line := range page {
				texts = append(texts, line.Text)
			}
			if len(page) == 0 || next.String() == "" {
				break
			}
			q.After = next
		}
		wanted := make([]string, len(whole))
		for i, line := range whole {
			wanted[i] = line.Text
		}
		if slices.Sort(texts); true {
			slices.Sort(wanted)
		}
		if !slices.Equal(texts, wanted) {
			l.t.Errorf("oldest first %v: pages have %d lines, all are %d", oldest, len(texts), len(wanted))
		}
	}
}

// lives has the server die: what it said before is still there.
func (l *logged) lives() {
	l.op.Kill(object(l.c.ID))
	await.True(l.t, "a new life", func() bool {
		return has(l.read(insight.LogQuery{Most: 100, From: time.Now().Add(-time.Minute)}), "database system was interrupted")
	})
	for _, oldest := range []bool{true, false} {
		found := l.read(insight.LogQuery{Most: 1000, Oldest: oldest})
		died, before := 0, 0
		for i, line := range found {
			if strings.Contains(line.Text, "second {") {
				before = i
			}
			if strings.Contains(line.Text, "database system was interrupted") {
				died = i
			}
		}
		if before == 0 || died < before {
			l.t.Errorf("oldest first %v: the end is line %d, what was before it %d, of %d", oldest, died, before, len(found))
		}
	}
	other := 1
	if found := l.read(insight.LogQuery{Most: 10, Node: &other}); len(found) != 0 {
		l.t.Errorf("another node: %v", found)
	}
}
