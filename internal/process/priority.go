package process

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// LowPriority makes the calling goroutine's work, and what it starts, step back
// behind everything else. The thread isn't used for anything else afterwards.
func LowPriority() {
	runtime.LockOSThread()
	// Best effort: without it the work is only less polite.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 10)
}
