package cluster_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/cluster"
)

func TestMaintenanceDue(t *testing.T) {
	t.Parallel()
	// Wednesdays, 14:00 to 16:00.
	window := cluster.Window{Frequency: cluster.Weekly, Duration: 2, HourOfDay: 14, DayOfWeek: 3}
	const waits, announce, begin = cluster.MaintenanceWaits, cluster.MaintenanceAnnounce, cluster.MaintenanceBegin
	this, next := at("2026-01-28 14:00"), at("2026-02-04 14:00")
	for _, c := range []struct {
		name             string
		status           cluster.Status
		size             int
		idle             bool
		announced, begun time.Time
		now              string
		want             cluster.MaintenanceStep
		start            time.Time
	}{
		{"days before", cluster.Active, 1, false, time.Time{}, time.Time{}, "2026-01-26 12:00", waits, this},
		{"a day before", cluster.Active, 1, false, time.Time{}, time.Time{}, "2026-01-27 14:00", announce, this},
		{"announced", cluster.Active, 1, false, this, time.Time{}, "2026-01-27 14:01", waits, this},
		{"announced for another window", cluster.Active, 1, false, at("2026-01-28 13:00"), time.Time{}, "2026-01-27 14:01", announce, this},
		{"found minutes before", cluster.Active, 3, false, time.Time{}, time.Time{}, "2026-01-28 13:58", announce, this},
		{"nothing to do", cluster.Active, 1, true, time.Time{}, time.Time{}, "2026-01-28 14:30", waits, this},
		{"open", cluster.Active, 1, false, this, time.Time{}, "2026-01-28 14:00", begin, this},
		{"found in the open window", cluster.Active, 3, false, time.Time{}, time.Time{}, "2026-01-28 15:00", begin, this},
		{"a rest that is long enough for one node", cluster.Active, 1, false, this, time.Time{}, "2026-01-28 15:50", begin, this},
		{"too short a rest for one", cluster.Active, 1, false, this, time.Time{}, "2026-01-28 15:51", waits, next},
		{"too short a rest for three", cluster.Active, 3, false, this, time.Time{}, "2026-01-28 15:31", waits, next},
		{"begun in this window", cluster.Active, 1, false, this, this, "2026-01-28 14:10", waits, next},
		{"begun in the last window", cluster.Active, 1, false, this, this, "2026-02-04 14:10", begin, next},
		{"the window moved after it was begun", cluster.Active, 1, false, this, at("2026-01-28 14:30"), "2026-01-28 14:40", waits, next},
		{"suspended a day before", cluster.Suspended, 1, false, time.Time{}, time.Time{}, "2026-01-27 14:00", waits, this},
		{"suspended", cluster.Suspended, 1, false, time.Time{}, time.Time{}, "2026-01-28 14:00", waits, this},
		{"resumed within the window", cluster.Active, 1, false, time.Time{}, time.Time{}, "2026-01-28 14:20", begin, this},
		{"being backed up", cluster.BackingUp, 1, false, this, time.Time{}, "2026-01-28 14:00", waits, this},
		{"a node is lost", cluster.Degraded, 3, false, this, time.Time{}, "2026-01-28 14:00", waits, this},
		{"a node is lost a day before", cluster.Degraded, 3, false, time.Time{}, time.Time{}, "2026-01-27 15:00", announce, this},
		{"failed", cluster.Failed, 1, false, time.Time{}, time.Time{}, "2026-01-27 15:00", waits, this},
		{"being changed", cluster.Updating, 1, false, this, time.Time{}, "2026-01-28 14:00", waits, this},
	} {
		db := cluster.Cluster{Status: c.status, Spec: cluster.Spec{Size: c.size, Updates: window}}
		if !c.idle {
			db.Maintenance.Tasks = []cluster.Task{{Kind: cluster.TaskRestart}}
		}
		if !c.announced.IsZero() {
			db.Maintenance.Announced = &c.announced
		}
		if !c.begun.IsZero() {
			db.Maintenance.Begun = &c.begun
		}
		if step, start, _ := db.MaintenanceDue(at(c.now)); step != c.want || !start.Equal(c.start) {
			t.Errorf("%s: %q in the window of %s, want %q in that of %s", c.name, step, start, c.want, c.start)
		}
	}
}

// TestMaintenanceOfAYear lives through a year in which tasks come up and the
// server or the database is away now and then: work begins in windows only, with
// time enough, once in each at most; it is told of ahead, and what was missed is
// made up for in the next window that can be had.
func TestMaintenanceOfAYear(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := cluster.Cluster{Status: cluster.Active}
		c.Size = rapid.SampledFrom([]int{1, 3}).Draw(t, "nodes")
		c.Updates = cluster.Window{
			Frequency: cluster.Weekly, Duration: rapid.IntRange(1, 4).Draw(t, "hours"),
			HourOfDay: rapid.IntRange(0, 23).Draw(t, "hour"), DayOfWeek: rapid.IntRange(1, 7).Draw(t, "day"),
		}
		if rapid.Bool().Draw(t, "monthly") {
			c.Updates.Frequency, c.Updates.WeekOfMonth = cluster.Monthly, new(rapid.IntRange(1, 4).Draw(t, "week"))
		}
		now := time.Date(rapid.IntRange(2024, 2036).Draw(t, "year"), 1, 1, 0, 0, 0, 0, time.UTC)
		year := now.AddDate(1, 0, 0)
		away := map[int]bool{}
		for _, day := range rapid.SliceOfN(rapid.IntRange(0, 364), 0, 20).Draw(t, "days away") {
			away[day] = true
		}
		found := time.Time{} // since when there is something to do and somebody there to do it
		done := 0
		for ; now.Before(year); now = now.Add(40 * time.Minute) {
			c.Status = cluster.Active
			if away[now.YearDay()-1] {
				c.Status, found = cluster.Suspended, time.Time{}
			}
			if c.Maintenance.Tasks == nil && now.Minute() == 0 && now.Hour()%5 == 0 {
				c.Maintenance.Tasks = []cluster.Task{{Kind: cluster.TaskRestart}}
			}
			if c.Maintenance.Tasks != nil && c.Status == cluster.Active && found.IsZero() {
				found = now
			}
			if !found.IsZero() && now.Sub(found) > 36*24*time.Hour {
				t.Fatalf("%s: nothing was done since %s", now, found)
			}
			step, start, end := c.MaintenanceDue(now)
			switch step {
			case cluster.MaintenanceAnnounce:
				if !start.After(now) || start.Sub(now) > 24*time.Hour {
					t.Fatalf("%s: announces the window of %s", now, start)
				}
				c.Maintenance.Announced = &start
			case cluster.MaintenanceBegin:
				opens, closes := c.Updates.Current(now)
				if opens.After(now) || !start.Equal(opens) || !end.Equal(closes) || closes.Sub(now) < time.Duration(c.Size)*10*time.Minute {
					t.Fatalf("%s: begins in the window from %s to %s", now, opens, closes)
				}
				if c.Maintenance.Begun != nil && !start.After(*c.Maintenance.Begun) {
					t.Fatalf("%s: begins twice in the window of %s", now, start)
				}
				told := c.Maintenance.Announced != nil && c.Maintenance.Announced.Equal(start)
				if !told && found.Before(start.Add(-time.Hour)) {
					t.Fatalf("%s: begins unannounced what was found at %s", now, found)
				}
				c.Maintenance.Begun, c.Maintenance.Tasks, found = &start, nil, time.Time{}
				done++
			}
		}
		if least := 52 - len(away) - 2; c.Updates.Frequency == cluster.Weekly && done < least {
			t.Fatalf("%d windows were used, want %d", done, least)
		}
	})
}
