package cluster

import "steward/internal/fault"

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
	if c.WeekOfMonth != nil {
		w.WeekOfMonth = c.WeekOfMonth
	} else if w.Frequency == Weekly {
		w.WeekOfMonth = nil
	}
	return w
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Validate returns every fault, with fields named "updates.…". Bounds are
// those of decisions.md §5.
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
	within("updates.duration", w.Duration, 1, 3)
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
