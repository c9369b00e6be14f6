package backup

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/cluster"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestDue(t *testing.T) {
	ptr := func(text string) *time.Time { return new(at(text)) }
	long := at("2026-01-01 12:00")
	for _, c := range []struct {
		name, now string
		last      *time.Time
		created   time.Time
		want      string // the day, "" for none
	}{
		{"never taken", "2026-01-31 00:00", nil, long, "2026-01-31"},
		{"taken today", "2026-01-31 18:00", ptr("2026-01-31 00:01"), long, ""},
		{"midnight has passed", "2026-02-01 00:00", ptr("2026-01-31 00:01"), long, "2026-02-01"},
		{"a minute before", "2026-01-31 23:59", ptr("2026-01-31 00:01"), long, ""},
		{"the server was down across midnight", "2026-02-01 03:00", ptr("2026-01-31 00:00"), long, "2026-02-01"},
		{"the server was down for three days", "2026-02-04 09:30", ptr("2026-02-01 00:00"), long, "2026-02-04"},
		{"a database of today has to wait", "2026-01-31 18:00", nil, at("2026-01-31 17:00"), ""},
		{"… for its first midnight", "2026-02-01 00:00", nil, at("2026-01-31 17:00"), "2026-02-01"},
	} {
		day, due := Due(at(c.now), c.last, c.created, Schedule{}, 1)
		if got := day.Format("2006-01-02"); due != (c.want != "") || due && got != c.want {
			t.Errorf("%s: %s %v, want %q", c.name, got, due, c.want)
		}
	}
}

// However late and however often it is asked: each day has one backup at most,
// and a day after the last moment there is one.
func TestDueOncePerDay(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := Schedule{
			Hour: rapid.IntRange(0, 23).Draw(r, "hour"), Minute: rapid.IntRange(0, 59).Draw(r, "minute"),
			Spread: time.Duration(rapid.IntRange(0, 3600).Draw(r, "spread")) * time.Second,
		}
		id := cluster.ID(rapid.Int64Range(1, 1000).Draw(r, "id"))
		now := at("2026-01-01 00:00")
		created := now
		var last *time.Time
		taken := map[string]bool{}
		for range 60 {
			now = now.Add(time.Duration(rapid.IntRange(1, 30*3600).Draw(r, "later")) * time.Second)
			day, due := Due(now, last, created, s, id)
			if !due {
				if since := now.Sub(*orElse(last, &created)); since > 48*time.Hour+s.Spread {
					r.Fatalf("nothing is due %v after the last", since)
				}
				continue
			}
			label := AutoLabel(day, nil)
			if taken[label] {
				r.Fatalf("%s twice", label)
			}
			if now.Sub(day) > 48*time.Hour+s.Spread {
				r.Fatalf("%s is taken at %v", label, now)
			}
			taken[label], last = true, new(now)
		}
	})
}

func orElse(a, b *time.Time) *time.Time {
	if a != nil {
		return a
	}
	return b
}

func TestParseSchedule(t *testing.T) {
	if s, err := ParseSchedule("23:05"); err != nil || s.Hour != 23 || s.Minute != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "24:00", "1:00", "00:60", "midnight"} {
		if _, err := ParseSchedule(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
