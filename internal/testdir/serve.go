package testdir

import (
	"net"
	"sync"
	"testing"
)

// Serve has handle deal with each connection that a listener gets, and closes it afterwards. At the
// test's end the listener and all connections are closed, and those who deal with them have ended.
func Serve(t testing.TB, l net.Listener, handle func(net.Conn)) {
	var wg sync.WaitGroup
	var conns sync.Map
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(c, nil)
			wg.Go(func() {
				defer conns.Delete(c)
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		wg.Wait()
	})
}

// ServeLocally is Serve on a port of this machine alone: its address.
func ServeLocally(t testing.TB, handle func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	Serve(t, l, handle)
	return l.Addr().String()
}
