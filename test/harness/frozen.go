package harness

import (
	"slices"
	"sync"
	"syscall"
	"testing"
)

// Freeze has all of a source's processes stand still until it is thawed, its connections open.
func (s Source) Freeze(t testing.TB) (thaw func()) {
	t.Helper()
	var stopped []int
	thaw = sync.OnceFunc(func() {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // some were ended meanwhile
		}
	})
	t.Cleanup(thaw) // what stands still can't be ended
	for more := []int{s.Pid}; len(more) > 0; {
		for _, pid := range more {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && pid == s.Pid {
				t.Fatal(err)
			}
		}
		stopped = append(stopped, more...)
		more = slices.DeleteFunc(Descendants(s.Pid), func(pid int) bool { return slices.Contains(stopped, pid) })
	}
	return thaw
}
