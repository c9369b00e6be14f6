// Package heap decides how far the process's heap may grow before garbage is collected.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"steward/internal/wait"
)

// A heap of some ten MB is collected less often than Go would, which is worth a tenth of the time of
// a request; a larger one may hold no more garbage than that, so that many databases cost what is
// kept of them and not three times as much. Most is of the 4 MB that Go takes a heap for at least: a
// process that begins, or a command that soon ends, has not yet any garbage to speak of.
const (
	garbage = 20 << 20 // bytes
	most    = 500      // percent of what is in use
	least   = 50
)

// copyPercent is for while data is copied. Go's own 100 doubles what several copies at once hold;
// they hold few and large buffers, which cost a collector nothing.
const copyPercent = 10

// tuneEvery is how often the share is chosen anew: what is in use changes with the number of databases,
// and quickly while a process begins.
const tuneEvery = time.Second

var heap struct {
	sync.Mutex
	copies int
	// percent is what holds without copies; 0 before it was changed.
	percent int
}

// Begin chooses how far the heap of a process may grow that has just begun, unless the environment says so (GOGC).
func Begin() {
	if !chosen() {
		choose(percent(live()))
	}
}

// Tune chooses it again and again until ctx ends.
func Tune(ctx context.Context) {
	if !chosen() {
		wait.Every(ctx, tuneEvery, func() { choose(percent(live())) })
	}
}

// chosen reports whether the environment says how far.
func chosen() bool { return os.Getenv("GOGC") != "" }

// live is how many bytes the last collection found in use.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// percent is by how much a heap of which so many bytes are in use may grow.
func percent(live uint64) int {
	return int(min(most, max(least, garbage*100/max(1, live))))
}

func choose(percent int) {
	heap.Lock()
	defer heap.Unlock()
	if heap.percent == percent { // to set it stops all that runs
		return
	}
	heap.percent = percent
	if heap.copies == 0 {
		debug.SetGCPercent(percent)
	}
}

// Limit keeps the heap small while data is copied: until what it returns was called, once or more.
func Limit() (release func()) {
	heap.Lock()
	defer heap.Unlock()
	if heap.copies++; heap.copies == 1 {
		heap.percent = debug.SetGCPercent(copyPercent)
		if heap.percent >= 0 && heap.percent < copyPercent { // the operator chose less
			debug.SetGCPercent(heap.percent)
		}
		debug.FreeOSMemory() // of what the heap had grown to until now
	}
	return sync.OnceFunc(func() {
		heap.Lock()
		defer heap.Unlock()
		if heap.copies--; heap.copies == 0 {
			debug.SetGCPercent(heap.percent)
		}
	})
}
