package harness

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/testdir"
)

// Operation is one request whose every step is a moment to die at.
type Operation struct {
	Name string
	// Prepare makes what the request needs, before failpoints count.
	Prepare func()
	// Ask sends the request. It may fail: the server dies at some point.
	Ask func() (status int, err error)
	// Steps is about how many failpoints it has: to count them takes a run, which tests spare that kill once. They are
	// counted where more than one is tried, and unless it is set.
	Steps int
	// Patience is how long a failpoint of it that isn't in At may take to be reached; unreached unless set.
	Patience time.Duration
	// Polls reports whether the server does the same over and over while it waits: such a round is tried once.
	Polls bool
	// At names failpoints at each of which the server is killed besides, where it is hit first. Each has to be reached.
	At []string
	// Check demands the outcome. accepted reports whether the request was answered with 200.
	Check func(accepted bool)
}

// unreached is how long a failpoint that is said by its ordinal may take to be reached: work in the
// background shifts the count, so that the last ones sometimes never come.
const unreached = 5 * time.Second

// Everything reports whether servers are killed at every step, and on every engine.
func Everything() bool { return os.Getenv("STEWARD_CRASH") == "all" }

// Failpoints are those of a server that WithTags("failpoint") built.
type Failpoints struct {
	s *Server
	// armed is the file whose existence makes failpoints count, log the one that has those
	// that counted.
	armed, log string
	runs       int
}

// Failpoints has the server's failpoints be counted, from its next start on.
func (s *Server) Failpoints() *Failpoints {
	dir := s.t.TempDir()
	f := &Failpoints{s: s, armed: filepath.Join(dir, "armed"), log: filepath.Join(dir, "hits")}
	s.Env = append(s.Env, "STEWARD_FAILPOINT_ARMED="+f.armed, "STEWARD_FAILPOINT_LOG="+f.log)
	return f
}

// Try does the operation once to count its failpoints, unless it says them and is killed once, then with kills at as
// many of them, others each time; at every one when STEWARD_CRASH is all. Without kills it tries those with a name
// alone. It leaves a server that runs.
func (f *Failpoints) Try(t *testing.T, kills int, op Operation) {
	t.Helper()
	if kills > 0 || Everything() {
		f.some(t, kills, op)
	}
	for _, name := range op.At {
		if t.Failed() {
			return
		}
		if _, died := f.run(t, op, name, Patience); !died {
			t.Errorf("%s: it never came to %q", op.Name, name)
		}
	}
}

// some are tried of the operation's failpoints.
func (f *Failpoints) some(t *testing.T, kills int, op Operation) {
	t.Helper()
	steps := f.steps(t, kills, op)
	found := len(steps)
	stride := 1
	if !Everything() {
		stride = (found + kills - 1) / kills
	}
	first := 1 + testdir.Rand(t, op.Name).IntN(stride)
	t.Logf("%d failpoints, about %d as it says; killed at every %dth from the %dth", found, op.Steps, stride, first)
	err := killAtEach(found, first, stride, func(step int) (died bool) {
		if !t.Failed() {
			_, died = f.run(t, op, strconv.Itoa(steps[step-1]), cmp.Or(op.Patience, unreached))
		}
		return died || t.Failed()
	})
	if err != nil {
		t.Errorf("%s: %v", op.Name, err)
	}
}

// steps are the ordinals of the failpoints to be tried.
func (f *Failpoints) steps(t *testing.T, kills int, op Operation) (steps []int) {
	t.Helper()
	if op.Steps > 0 && kills == 1 && !Everything() {
		for n := range op.Steps {
			steps = append(steps, n+1)
		}
		return steps
	}
	hits, _ := f.run(t, op, "", 0)
	steps = ordinals(hits, op.Polls)
	found := len(steps)
	if found == 0 {
		t.Fatal("no failpoint was hit: the suite checks nothing")
	}
	if op.Steps > 0 && Everything() && (found < op.Steps/2 || found > 2*op.Steps) {
		t.Errorf("it has %d failpoints, and says about %d", found, op.Steps)
	}
	return steps
}

// killAtEach kills at every stride-th of the failpoints that were found, from the
// first to try on. Work in the background shifts the count, so that single ones may
// never come. When none of them does, the very first of all is tried, which comes
// wherever any does: a case that dies nowhere shows nothing.
func killAtEach(found, first, stride int, kill func(ordinal int) (died bool)) error {
	died := 0
	for ordinal := first; ordinal <= found; ordinal += stride {
		if kill(ordinal) {
			died++
		}
	}
	if died == 0 && !kill(1) {
		return fmt.Errorf("none of its %d failpoints was reached when it was to be killed there: it checks nothing", found)
	}
	return nil
}

// ordinals are those of the hits to be tried: all or, if the server polls, without the rounds that do what the one before did. Two steps are no
// round: so are transactions that follow one another.
func ordinals(hits []string, polls bool) (all []int) {
	for i := 0; i < len(hits); {
		round := 0
		for length := 3; polls && length <= i && i+length <= len(hits); length++ {
			if slices.Equal(hits[i-length:i], hits[i:i+length]) {
				round = length
				break
			}
		}
		if round > 0 {
			i += round
			continue
		}
		i++
		all = append(all, i)
	}
	return all
}

// run does the operation with a kill at a failpoint, which is said by its ordinal or its name ("": none), if that is
// reached within a time. It returns which failpoints were hit, and whether the server died at the one.
func (f *Failpoints) run(t *testing.T, op Operation, at string, within time.Duration) (hits []string, died bool) {
	t.Helper()
	f.runs++
	if op.Prepare != nil {
		op.Prepare()
	}
	before := len(f.hits())
	f.arm(t, at)
	status, _ := op.Ask()
	if at != "" {
		// An ordinal may never come in this run: background work shifts the count.
		select {
		case <-f.s.Exited():
			died = true
		case <-time.After(within):
			t.Logf("%s: failpoint %s wasn't reached this time", op.Name, at)
			f.s.Kill()
		}
		f.Disarm(t)
		f.s.Start()
	}
	op.Check(status == 200)
	f.Disarm(t)
	hits = f.hits()[before:]
	if t.Failed() && len(hits) > 0 {
		t.Logf("%s died at: %s %s", op.Name, at, hits[len(hits)-1])
	}
	return hits, died
}

// arm has failpoints count from here on, and one kill.
func (f *Failpoints) arm(t *testing.T, at string) {
	t.Helper()
	written := f.armed + ".new"
	err := os.WriteFile(written, fmt.Appendf(nil, "%s\nin run %d", at, f.runs), 0o600)
	if err == nil {
		err = os.Rename(written, f.armed)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Disarm ends the counting of failpoints, also for the cleaning up after a check.
func (f *Failpoints) Disarm(t *testing.T) {
	t.Helper()
	if err := os.Remove(f.armed); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// hits are the names of all failpoints that were counted.
func (f *Failpoints) hits() (all []string) {
	text, _ := os.ReadFile(f.log) // there is none before the first hit
	for line := range strings.Lines(string(text)) {
		_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, name)
	}
	return all
}
