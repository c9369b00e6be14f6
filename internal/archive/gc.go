package archive

import (
	"runtime/debug"
	"sync"
)

// gcPercent is by how much the heap may grow before it is collected while
// data is copied. Go's own 100 doubles what several copies at once hold; they
// hold few and large buffers, which cost a collector nothing.
const gcPercent = 10

var heap struct {
	sync.Mutex
	copies, before int
}

// limitHeap keeps the heap small until what it returns was called, once or more.
func limitHeap() (release func()) {
	heap.Lock()
	defer heap.Unlock()
	if heap.copies++; heap.copies == 1 {
		heap.before = debug.SetGCPercent(gcPercent)
		if heap.before >= 0 && heap.before < gcPercent { // the operator chose less
			debug.SetGCPercent(heap.before)
		}
		debug.FreeOSMemory() // of what the heap had grown to until now
	}
	return sync.OnceFunc(func() {
		heap.Lock()
		defer heap.Unlock()
		if heap.copies--; heap.copies == 0 {
			debug.SetGCPercent(heap.before)
		}
	})
}
