package cluster_test

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

func TestWindowOpens(t *testing.T) {
	t.Parallel()
	weekly := func(day, hour, hours int) cluster.Window {
		return cluster.Window{Frequency: cluster.Weekly, Duration: hours, HourOfDay: hour, DayOfWeek: day}
	}
	monthly := func(week, day, hour, hours int) cluster.Window {
		return cluster.Window{Frequency: cluster.Monthly, Duration: hours, HourOfDay: hour, DayOfWeek: day, WeekOfMonth: &week}
	}
	for _, c := range []struct {
		name  string
		w     cluster.Window
		now   string
		start string
	}{
		{"later on the same day", weekly(3, 14, 1), "2026-01-28 13:59", "2026-01-28 14:00"},
		{"just open", weekly(3, 14, 1), "2026-01-28 14:00", "2026-01-28 14:00"},
		{"about to close", weekly(3, 14, 1), "2026-01-28 14:59", "2026-01-28 14:00"},
		{"closed", weekly(3, 14, 1), "2026-01-28 15:00", "2026-02-04 14:00"},
		{"Monday, at the end of the year", weekly(1, 0, 4), "2026-12-31 12:00", "2027-01-04 00:00"},
		{"Sunday", weekly(7, 2, 3), "2026-01-28 12:00", "2026-02-01 02:00"},
		{"open over midnight", weekly(2, 23, 4), "2026-01-28 02:59", "2026-01-27 23:00"},
		{"open over the end of a month", monthly(4, 6, 22, 4), "2026-03-01 01:00", "2026-02-28 22:00"},
		{"open over the end of a year", weekly(4, 23, 4), "2027-01-01 01:00", "2026-12-31 23:00"},
		// February 2026 begins on a Sunday and ends on a Saturday.
		{"first of the month", monthly(1, 7, 2, 3), "2026-01-31 00:00", "2026-02-01 02:00"},
		{"last week of February", monthly(4, 6, 2, 3), "2026-02-01 00:00", "2026-02-28 02:00"},
		{"last week of February in a leap year", monthly(4, 2, 2, 3), "2028-02-01 00:00", "2028-02-22 02:00"},
		{"after that of February", monthly(4, 6, 2, 3), "2026-02-28 05:00", "2026-03-28 02:00"},
		{"from January 31 on, which February lacks", monthly(2, 3, 2, 3), "2026-01-31 12:00", "2026-02-11 02:00"},
		// Clocks change in Europe on 2026-03-29 and 2026-10-25, at 01:00 UTC.
		{"when clocks go forward", weekly(7, 1, 1), "2026-03-29 00:30", "2026-03-29 01:00"},
		{"when clocks go back", weekly(7, 1, 1), "2026-10-25 01:59", "2026-10-25 01:00"},
	} {
		start, end := c.w.Current(at(c.now))
		if start != at(c.start) || end.Sub(start) != time.Duration(c.w.Duration)*time.Hour {
			t.Errorf("%s: from %s to %s", c.name, start, end)
		}
	}
}

// TestWindowsOfAYear walks through a year: windows open where the calendar says,
// none is skipped, and the zone that a clock is set to makes no difference.
func TestWindowsOfAYear(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		berlin = time.FixedZone("CET", 3600)
	}
	rapid.Check(t, func(t *rapid.T) {
		w := cluster.Window{
			Frequency: cluster.Weekly, Duration: rapid.IntRange(1, 4).Draw(t, "hours"),
			HourOfDay: rapid.IntRange(0, 23).Draw(t, "hour"), DayOfWeek: rapid.IntRange(1, 7).Draw(t, "day"),
		}
		if rapid.Bool().Draw(t, "monthly") {
			w.Frequency, w.WeekOfMonth = cluster.Monthly, new(rapid.IntRange(1, 4).Draw(t, "week"))
		}
		if len(w.Validate()) > 0 {
			t.Fatalf("not a window: %+v", w)
		}
		now := time.Date(rapid.IntRange(2024, 2040).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		year := now.AddDate(1, 0, 0)
		months, windows := map[time.Month]bool{}, 0
		for start, end := w.Current(now); start.Before(year); start, end = w.Current(end) {
			if !start.Before(now) {
				months[start.Month()] = true
				windows++
			}
		}
		if monthly := w.Frequency == cluster.Monthly; len(months) != 12 || monthly && windows != 12 || !monthly && windows < 52 {
			t.Fatalf("%d windows in %d months of %d", windows, len(months), now.Year())
		}
		stride := time.Duration(rapid.IntRange(61, 277).Draw(t, "minutes between looks")) * time.Minute
		for ; now.Before(year); now = now.Add(stride) {
			start, end := w.Current(now)
			if local, _ := w.Current(now.In(berlin)); !local.Equal(start) {
				t.Fatalf("%s: a clock in another zone says %s, not %s", now, local, start)
			}
			if !end.After(now) {
				t.Fatalf("%s: the window from %s to %s is over", now, start, end)
			}
			if week := (start.Day()-1)/7 + 1; w.WeekOfMonth != nil && week != *w.WeekOfMonth {
				t.Fatalf("%s is in week %d, not %d", start, week, *w.WeekOfMonth)
			}
			if day := (int(start.Weekday())+6)%7 + 1; day != w.DayOfWeek || start.Hour() != w.HourOfDay || start.Minute() != 0 {
				t.Fatalf("%s isn't on day %d at %d o'clock", start, w.DayOfWeek, w.HourOfDay)
			}
			if next, _ := w.Current(end); !next.After(start) || next.Sub(start) > 35*24*time.Hour || w.Frequency == cluster.Weekly && next.Sub(start) != 7*24*time.Hour {
				t.Fatalf("after %s comes %s", start, next)
			}
		}
	})
}
