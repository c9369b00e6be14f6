package await

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// failed is a test that keeps why it failed.
type failed struct {
	testing.TB
	why string
}

func (f *failed) Helper() {}

func (f *failed) Fatalf(format string, args ...any) {
	f.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestReturnsOnceItIsSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		True(t, "at once", func() bool { return true })
		if took := time.Since(begun); took != 0 {
			t.Errorf("what is true was waited for, for %v", took)
		}
		True(t, "a second later", func() bool { return time.Since(begun) > time.Second })
		NoError(t, "two seconds later", func() error {
			if time.Since(begun) < 2*time.Second {
				return errors.New("too early")
			}
			return nil
		})
		if took := time.Since(begun); took > 2*time.Second+longestPause {
			t.Errorf("returned after %v", took)
		}
	})
}

func TestFailsWhenItNeverIs(t *testing.T) {
	t.Parallel()
	tries := 0
	try := func() error { tries++; return fmt.Errorf("try %d", tries) }
	for name, wait := range map[string]func(testing.TB){
		"true":     func(t testing.TB) { True(t, "the moon", func() bool { return try() == nil }) },
		"no error": func(t testing.TB) { NoError(t, "the moon", try) },
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, f, ended := time.Now(), &failed{TB: t}, make(chan struct{})
			tries = 0
			go func() {
				defer close(ended)
				wait(f)
				t.Errorf("%s: returned", name)
			}()
			<-ended
			want := "waited 2m0s in vain: the moon"
			if name == "no error" {
				want += fmt.Sprintf(": try %d", tries)
			}
			if f.why != want {
				t.Errorf("%s: failed with %q, want %q", name, f.why, want)
			}
			if took := time.Since(begun); took < patience || took > patience+longestPause {
				t.Errorf("%s: gave up after %v", name, took)
			}
		})
	}
}

// TestSlowChecksAreFewer: checks that take long themselves don't keep the processor busy.
func TestSlowChecksAreFewer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, checking := time.Now(), time.Duration(0)
		True(t, "a minute later", func() bool {
			checking += 100 * time.Millisecond
			time.Sleep(100 * time.Millisecond)
			return time.Since(begun) > time.Minute
		})
		if took := time.Since(begun); checking > took/8 {
			t.Errorf("checked for %v of %v", checking, took)
		}
	})
}

// TestLongWaitsCheckLess: what comes soon is seen soon, and what doesn't is seen later by a small part of the time.
func TestLongWaitsCheckLess(t *testing.T) {
	t.Parallel()
	for after, mostChecks := range map[time.Duration]int{time.Second: 30, time.Minute: 350} {
		synctest.Test(t, func(t *testing.T) {
			begun, checks := time.Now(), 0
			True(t, "it is so", func() bool {
				checks++
				return time.Since(begun) >= after
			})
			if late := time.Since(begun) - after; checks > mostChecks || late > after/parts {
				t.Errorf("what came after %v was seen %v later, by %d checks", after, late, checks)
			}
		})
	}
}
