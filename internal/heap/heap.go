// Package heap decides how far the process's heap may grow before garbage is collected.
package heap

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// A heap of some ten MB is collected less often than Go would, which is worth a tenth of the time of
// a request; a larger one may hold no more garbage than that, so that many databases cost what is
// kept of them and not three times as much.
const (
	garbage = 20 << 20 // bytes
	most    = 200      // percent of what is in use
	least   = 50
)

// copyPercent is for while data is copied. Go's own 100 doubles what several copies at once hold;
// they hold few and large buffers, which cost a collector nothing.
const copyPercent = 10

// tuneEvery is how often the share is chosen anew: what is in use changes with the number of databases.
const tuneEvery = 5 * time.Second

var heap struct {
	sync.Mutex
	copies int
	// percent is what holds without copies; 0 before it was changed.
	percent int
}

// Tune chooses how far the heap may grow until ctx ends, unless the environment says so (GOGC).
func Tune(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	ticks := time.NewTicker(tuneEvery)
	defer ticks.Stop()
	for {
		choose(percent(live()))
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

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
