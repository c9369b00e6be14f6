package insight_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/insight"
)

// TestLogPages: page by page one sees each line once, whichever way, however many are of one time.
func TestLogPages(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []insight.LogLine
		n := rapid.IntRange(0, 40).Draw(t, "lines")
		for i := range n {
			all = append(all, insight.LogLine{
				Time: time.Unix(rapid.Int64Range(0, 5).Draw(t, "second"), 0), Node: rapid.IntRange(0, 2).Draw(t, "node"), Severity: insight.Info, Text: fmt.Sprint("line ", i),
			})
		}
		for _, oldest := range []bool{true, false} {
			q := insight.LogQuery{Least: insight.Info, Oldest: oldest, Most: rapid.IntRange(1, 7).Draw(t, "page")}
			seen, last := map[string]bool{}, time.Time{}
			for range n + 2 {
				var wanted []insight.LogLine
				for _, l := range all {
					if q.Wants(l) {
						wanted = append(wanted, l)
					}
				}
				page, next := q.Page(wanted)
				for _, l := range page {
					if seen[l.Text] {
						t.Fatalf("%s comes twice", l.Text)
					}
					if !last.IsZero() && (oldest && l.Time.Before(last) || !oldest && l.Time.After(last)) {
						t.Fatalf("%s comes late", l.Text)
					}
					seen[l.Text], last = true, l.Time
				}
				if next.String() == "" || len(page) == 0 {
					break
				}
				var ok bool
				if q.After, ok = insight.ParseLogToken(next.String()); !ok {
					t.Fatalf("%s can't be read", next)
				}
			}
			if len(seen) != n {
				t.Fatalf("%d of %d lines were seen", len(seen), n)
			}
		}
	})
}

func TestLogTextIsHarmless(t *testing.T) {
	t.Parallel()
	if got := insight.LogText("a\x1b[31mb\r\n\tc\u202ed\xff "); got != "a\uFFFD[31mb   c\uFFFDd\uFFFD" {
		t.Errorf("%q", got)
	}
	if got := insight.LogText(strings.Repeat("ä", 1<<20)); len(got) > insight.MostLog+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes", len(got))
	}
}

func TestLogTokenRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"x", "MQ", "MS4", "MS4tMQ", "!!", "MDEuMQ"} {
		if _, ok := insight.ParseLogToken(text); ok {
			t.Errorf("%q is read", text)
		}
	}
}

func TestSessionIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := insight.SessionID{Node: rapid.IntRange(0, 2).Draw(t, "node"), Pid: rapid.Int64Min(0).Draw(t, "pid"), Started: rapid.Int64Min(0).Draw(t, "started")}
		if got, ok := insight.ParseSessionID(id.String()); !ok || got != id {
			t.Fatalf("%v is read as %v", id, got)
		}
	})
}
