package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestCloseLeavesNothing: servers run on, and nothing that watched them is left.
func TestCloseLeavesNothing(t *testing.T) { //nolint:paralleltest // others' goroutines and descriptors would count
	s := newSite(t, distribution(t))
	others := 1 // HAProxy
	if s.kernel {
		others = 0
	}
	before := goleak.IgnoreCurrent()
	d := s.started(t)
	want := s.wanted(t, 1)
	settle(t, d, want)
	if n := watchedProcesses(t); n != others+1 {
		t.Fatalf("%d processes are watched", n)
	}
	d.Close()
	if n := watchedProcesses(t); n != others {
		t.Errorf("%d processes are watched", n)
	}
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("steward/internal/gateway/hold.(*Holder).accept")); err != nil {
		t.Error(err)
	}
	d = s.started(t) // which adopts the server
	settle(t, d, want)
	d.Close()
	if n := watchedProcesses(t); n != others {
		t.Errorf("%d processes are watched", n)
	}
}

// watchedProcesses counts this process's handles on others.
func watchedProcesses(t *testing.T) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range all {
		text, _ := os.ReadFile(info) // one may be closed by now
		if strings.Contains(string(text), "\nPid:\t") {
			n++
		}
	}
	return n
}
