package monitor_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/monitor"
)

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func result(at time.Duration, c monitor.Class) monitor.Result {
	return monitor.Result{Started: start.Add(at), Took: 10 * time.Millisecond, Class: c}
}

// play judges one result a second, written as letters: g good, b bad, ? inconclusive.
// It answers a letter for each: u and d for a change to up and down, ! for another
// look at once, . for nothing.
func play(c monitor.Condition, looks string, rules monitor.Rules) (monitor.Condition, string) {
	var answers strings.Builder
	for i, look := range looks {
		class := map[rune]monitor.Class{'g': monitor.OK, 'b': monitor.Refused, '?': monitor.Inconclusive}[look]
		var v monitor.Decision
		c, v = c.Judge(result(time.Duration(i)*time.Second, class), rules)
		switch {
		case v.Change != nil && v.Change.To == monitor.Up:
			answers.WriteString("u")
		case v.Change != nil:
			answers.WriteString("d")
		case v.Again:
			answers.WriteString("!")
		default:
			answers.WriteString(".")
		}
	}
	return c, answers.String()
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name           string
		from           monitor.Status
		looks, answers string
	}{
		{"good stays good", monitor.Up, "gggg", "...."},
		{"one failure is looked at again", monitor.Up, "bg", "!."},
		{"three failures are an outage", monitor.Up, "bbbbb", "!!d.."},
		{"failures apart are none", monitor.Up, "bbgbbg", "!!.!!."},
		{"two good ones end it", monitor.Down, "gg", "!u"},
		{"one good one does not", monitor.Down, "gbgbb", "!.!.."},
		{"pending needs two good ones", monitor.Pending, "ggg", "!u."},
		{"pending needs three bad ones", monitor.Pending, "bbbb", "!!d."},
		{"pending begins anew when results differ", monitor.Pending, "gbgg", "!!!u"},
		{"our own trouble says nothing", monitor.Up, "???", "..."},
		{"nor does it end a streak", monitor.Up, "b?bb", "!!!d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got := play(monitor.NewCondition(c.from, nil), c.looks, monitor.DefaultRules()); got != c.answers {
				t.Errorf("%s led to %s, want %s", c.looks, got, c.answers)
			}
		})
	}
}

// TestOutageBegins: an outage began with the first of the looks that agree.
func TestOutageBegins(t *testing.T) {
	c := monitor.NewCondition(monitor.Up, nil)
	var v monitor.Decision
	for _, at := range []time.Duration{5, 6, 7} {
		c, v = c.Judge(result(at*time.Second, monitor.Refused), monitor.DefaultRules())
	}
	if v.Change == nil || !v.Change.Result.Started.Equal(start.Add(5*time.Second)) || !v.Change.Decided.Equal(start.Add(7010*time.Millisecond)) {
		t.Errorf("change %+v", v.Change)
	}
}

// TestFlapping: after the third outage within an hour a service must be good for
// five minutes, with looks at their turn and no more.
func TestFlapping(t *testing.T) {
	rules := monitor.DefaultRules()
	c, got := play(monitor.NewCondition(monitor.Up, nil), "bbbggbbbggbbb", rules)
	if got != "!!d!u!!d!u!!d" {
		t.Fatalf("outages: %s", got)
	}
	up := time.Duration(0)
	for at := 13 * time.Second; up == 0 && at < time.Hour; at += 30 * time.Second {
		var v monitor.Decision
		c, v = c.Judge(result(at, monitor.OK), rules)
		if v.Again && at > 44*time.Second {
			t.Errorf("hurries at %v", at)
		}
		if v.Change != nil {
			up = at - 13*time.Second
		}
	}
	if up != rules.Calm {
		t.Errorf("up after %v", up)
	}
	// An hour later it counts no more.
	c, _ = play(c, "bbb", rules)
	_, v := c.Judge(result(2*time.Hour, monitor.OK), rules)
	if !v.Again {
		t.Error("an old outage still counts")
	}
}

// TestJudgeProperties: whatever the results, changes alternate, and each rests on
// as many results in a row as it needs.
func TestJudgeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := monitor.DefaultRules()
		rules.FlapLimit = 1 << 30
		from := rapid.SampledFrom([]monitor.Status{monitor.Up, monitor.Down, monitor.Pending}).Draw(t, "from")
		looks := rapid.StringOfN(rapid.SampledFrom([]rune("gb")), 1, 60, -1).Draw(t, "looks")
		c, answers := play(monitor.NewCondition(from, nil), looks, rules)
		status := from
		for i, a := range answers {
			switch a {
			case 'u':
				if status == monitor.Up || i < 1 || looks[i-1:i+1] != "gg" {
					t.Fatalf("up without cause at %d: %s %s", i, looks, answers)
				}
				status = monitor.Up
			case 'd':
				if status == monitor.Down || i < 2 || looks[i-2:i+1] != "bbb" {
					t.Fatalf("down without cause at %d: %s %s", i, looks, answers)
				}
				status = monitor.Down
			}
		}
		if c.Status != status {
			t.Fatalf("ends as %s, want %s", c.Status, status)
		}
	})
}
