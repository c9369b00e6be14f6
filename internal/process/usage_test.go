package process

import (
	"os"
	"testing"
	"time"
)

// counting is a group whose counts a test sets.
type counting struct {
	Group
	used         time.Duration
	memory       int64
	looked, read int
}

func (c *counting) cpu() *time.Duration { c.looked++; return &c.used }
func (c *counting) counts() counts      { c.read++; return counts{memory: &c.memory} }
func (c *counting) pids() ([]int, error) {
	return []int{os.Getpid()}, nil
}

// TestAnIdleServerIsAskedForNothing but its processor time: all else stays as it was, until it has done something or a minute has gone.
func TestAnIdleServerIsAskedForNothing(t *testing.T) {
	t.Parallel()
	g, p := &counting{used: time.Second, memory: 100}, &Process{record: record{Pid: os.Getpid()}}
	look := func(last Usage) Usage {
		t.Helper()
		u, err := p.Usage(g, last)
		if err != nil || u.CPU != g.used {
			t.Fatalf("%+v, %v", u, err)
		}
		return u
	}
	u := look(Usage{})
	if u.Idle || u.Memory != 100 || g.read != 1 {
		t.Fatalf("%+v after %d", u, g.read)
	}
	for range 4 { // a little each time, less than counts in all
		g.used, g.memory = g.used+idleCPU/5, 200
		if u = look(u); !u.Idle || u.Memory != 100 || g.read != 1 {
			t.Errorf("idle: %+v after %d", u, g.read)
		}
	}
	g.used += idleCPU / 5
	if u = look(u); u.Idle || u.Memory != 200 || g.read != 2 {
		t.Errorf("busy: %+v after %d", u, g.read)
	}
	g.memory, u.at = 300, time.Now().Add(-2*idleTime)
	if u = look(u); u.Idle || u.Memory != 300 || g.read != 3 {
		t.Errorf("after a while: %+v after %d", u, g.read)
	}
	g.used = 0 // another group of the name
	if u = look(u); u.Idle || g.read != 4 {
		t.Errorf("begun anew: %+v after %d", u, g.read)
	}
}
