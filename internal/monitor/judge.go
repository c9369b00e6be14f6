package monitor

import "time"

// Rules are how results become a status.
type Rules struct {
	// Confirm is the time to the looks that confirm a change.
	Confirm time.Duration
	// Failures and Successes are how many results in a row it takes to call a
	// service down, and up again, the first one included.
	Failures, Successes int
	// A service that went down FlapLimit times within FlapWindow is flapping: it
	// must have been good for Calm before it counts as up, so that people are not
	// told again and again.
	FlapLimit        int
	FlapWindow, Calm time.Duration
}

// DefaultRules are those of docs/rules.md: two more looks after a failure, two
// good ones before a service is up.
func DefaultRules() Rules {
	return Rules{
		Confirm: 1500 * time.Millisecond, Failures: 3, Successes: 2,
		FlapLimit: 3, FlapWindow: time.Hour, Calm: 5 * time.Minute,
	}
}

// Condition is what is known of a service between checks.
type Condition struct {
	Status Status
	// streak counts results in a row that speak against the status (or, of a
	// pending one, for either); first is the first of them.
	streak int
	good   bool
	first  Result
	// downs are when it went down lately, oldest first.
	downs []time.Time
}

// NewCondition is that of a service of which the status is known, and when it
// went down lately, oldest first.
func NewCondition(s Status, downs []time.Time) Condition { return Condition{Status: s, downs: downs} }

// Decision is what a result leads to.
type Decision struct {
	// Change is set when the service has another status from now on.
	Change *Change
	// Again is set when the next look must not wait for its turn.
	Again bool
}

// Change is a new status and what it rests on: the first of the results that
// agree, since that is when the outage began or ended.
type Change struct {
	From, To Status
	Result   Result
	// Decided is when the last of the results had come.
	Decided time.Time
}

// Judge is the condition after a result, and what follows from it. A result that
// is inconclusive changes nothing, and has its look repeated.
func (c Condition) Judge(r Result, rules Rules) (Condition, Decision) {
	switch {
	case r.Class == Inconclusive:
		return c, Decision{Again: c.streak > 0}
	case r.Good() && c.Status == Up, !r.Good() && c.Status == Down:
		c.streak = 0
		return c, Decision{}
	}
	if c.streak == 0 || c.good != r.Good() {
		c.streak, c.good, c.first = 0, r.Good(), r
	}
	c.streak++
	if !c.enough(r, rules) {
		return c, Decision{Again: c.streak < rules.needed(r.Good())}
	}
	change := Change{From: c.Status, Result: c.first, Decided: r.Started.Add(r.Took)}
	change.To = Up
	if !r.Good() {
		change.To = Down
		c.downs = append(lately(c.downs, r.Started, rules), r.Started)
	}
	c.Status, c.streak = change.To, 0
	return c, Decision{Change: &change}
}

func (r Rules) needed(good bool) int {
	if good {
		return r.Successes
	}
	return r.Failures
}

// enough reports whether the streak that ends with r makes another status.
func (c Condition) enough(r Result, rules Rules) bool {
	if c.streak < rules.needed(r.Good()) {
		return false
	}
	flapping := c.Status == Down && len(lately(c.downs, r.Started, rules)) >= rules.FlapLimit
	return !flapping || r.Started.Sub(c.first.Started) >= rules.Calm
}

func lately(downs []time.Time, now time.Time, rules Rules) []time.Time {
	for len(downs) > 0 && now.Sub(downs[0]) > rules.FlapWindow {
		downs = downs[1:]
	}
	return downs
}
