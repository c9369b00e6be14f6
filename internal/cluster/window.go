package cluster

import (
	"time"

	"steward/internal/fault"
)

// Frequency of a maintenance window.
type Frequency string

// A weekly window has no week of the month; a monthly one needs it.
const (
	Weekly  Frequency = "weekly"
	Monthly Frequency = "monthly"
)

// Window is when maintenance may happen. Hours are UTC, Monday is 1.
type Window struct {
	Frequency   Frequency `json:"frequency"`
	Duration    int       `json:"duration"`
	HourOfDay   int       `json:"hour_of_day"`
	DayOfWeek   int       `json:"day_of_week"`
	WeekOfMonth *int      `json:"week_of_month"`
}

// WindowChange is a PUT's `updates`: nil keys stay as they are.
type WindowChange struct {
	Frequency   *Frequency
	Duration    *int
	HourOfDay   *int
	DayOfWeek   *int
	WeekOfMonth *int
	// NoWeek takes the week of the month away.
	NoWeek bool
}

// DefaultWindow is a quiet hour, on a day that spreads the databases over the week.
func DefaultWindow(id ID) Window {
	return Window{Frequency: Weekly, Duration: 3, HourOfDay: 2, DayOfWeek: int(id%7) + 1}
}

// Merge applies the given keys. Turning weekly drops the week of the month.
func (w Window) Merge(c WindowChange) Window {
	set(&w.Frequency, c.Frequency)
	set(&w.Duration, c.Duration)
	set(&w.HourOfDay, c.HourOfDay)
	set(&w.DayOfWeek, c.DayOfWeek)
	switch {
	case c.WeekOfMonth != nil:
		w.WeekOfMonth = c.WeekOfMonth
	case c.NoWeek || w.Frequency == Weekly:
		w.WeekOfMonth = nil
	}
	return w
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// longestWindow is the most hours a window may have.
const longestWindow = 4

// Validate returns every fault, with fields named "updates.…".
func (w Window) Validate() fault.Faults {
	var faults fault.Faults
	if w.Frequency != Weekly && w.Frequency != Monthly {
		faults = append(faults, fault.OneOf("updates.frequency", Weekly, Monthly))
	}
	within := func(field string, v, least, most int) {
		if v < least || v > most {
			faults = append(faults, fault.Range(field, least, most))
		}
	}
	within("updates.duration", w.Duration, 1, longestWindow)
	within("updates.hour_of_day", w.HourOfDay, 0, 23)
	within("updates.day_of_week", w.DayOfWeek, 1, 7)
	switch {
	case w.WeekOfMonth != nil && w.Frequency == Weekly:
		faults.Add("updates.week_of_month", "Must be null when frequency is weekly")
	case w.WeekOfMonth != nil:
		within("updates.week_of_month", *w.WeekOfMonth, 1, 4)
	case w.Frequency == Monthly:
		faults.Add("updates.week_of_month", "updates.week_of_month is required when frequency is monthly")
	}
	return faults
}

// Current is the window that is open at now, or else the next one to open.
// Everything is UTC: days on which clocks change elsewhere are like any other.
func (w Window) Current(now time.Time) (start, end time.Time) {
	length := time.Duration(w.Duration) * time.Hour
	start = w.startAfter(now.Add(-length))
	return start, start.Add(length)
}

// startAfter is the first start after t.
func (w Window) startAfter(t time.Time) time.Time {
	t = t.UTC()
	if w.Frequency == Monthly && w.WeekOfMonth != nil {
		for month := firstOf(t); ; month = month.AddDate(0, 1, 0) {
			if start := w.startIn(month); start.After(t) {
				return start
			}
		}
	}
	day := time.Date(t.Year(), t.Month(), t.Day(), w.HourOfDay, 0, 0, 0, time.UTC)
	start := day.AddDate(0, 0, daysUntil(day, w.DayOfWeek))
	if !start.After(t) {
		start = start.AddDate(0, 0, 7)
	}
	return start
}

// startIn is a monthly window's start in the month that begins at first: in its
// n-th such day of the week, which every month has for n up to 4.
func (w Window) startIn(first time.Time) time.Time {
	day := daysUntil(first, w.DayOfWeek) + 7*(*w.WeekOfMonth-1)
	return first.AddDate(0, 0, day).Add(time.Duration(w.HourOfDay) * time.Hour)
}

func firstOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// daysUntil is how many days after t's the next such day of the week is; 0 for
// the same day. Monday is 1.
func daysUntil(t time.Time, day int) int {
	return (day - int(t.Weekday()) + 7) % 7
}
