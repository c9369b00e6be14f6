package archive

import (
	"runtime/debug"
	"sync"
)

// thriftPercent is by how much the heap may grow before it is collected while
// data is copied. Go's own 100 doubles what several copies at once hold; they
// hold few and large buffers, which cost a collector nothing.
const thriftPercent = 10

var thrift struct {
	sync.Mutex
	copies, before int
}

// thrifty keeps the heap small until what it returns was called, once or more.
func thrifty() (spend func()) {
	thrift.Lock()
	defer thrift.Unlock()
	if thrift.copies++; thrift.copies == 1 {
		thrift.before = debug.SetGCPercent(thriftPercent)
		if thrift.before >= 0 && thrift.before < thriftPercent { // the operator is thriftier
			debug.SetGCPercent(thrift.before)
		}
		debug.FreeOSMemory() // of what the heap had grown to until now
	}
	return sync.OnceFunc(func() {
		thrift.Lock()
		defer thrift.Unlock()
		if thrift.copies--; thrift.copies == 0 {
			debug.SetGCPercent(thrift.before)
		}
	})
}
