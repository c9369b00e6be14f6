package harness

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Narrow is the same source at another port, which passes on only so many bytes of what it answers until it is
// widened: who reads more stands still in the middle of it.
func (s Source) Narrow(t testing.TB, most int64) (narrow Source, widen func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	source := fmt.Sprintf("127.0.0.1:%d", s.Port)
	wide := make(chan struct{})
	widen = sync.OnceFunc(func() { close(wide) })
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var passed atomic.Int64
	var all sync.WaitGroup
	join := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", source)
		if err != nil {
			return
		}
		defer server.Close()
		context.AfterFunc(ctx, func() { client.Close(); server.Close() })
		all.Go(func() {
			_, _ = io.Copy(server, client) // until either goes
			server.Close()
		})
		part := make([]byte, 64<<10)
		for {
			n, err := server.Read(part)
			if passed.Add(int64(n)) > most {
				select {
				case <-wide:
				case <-ctx.Done():
					return
				}
			}
			if _, e := client.Write(part[:n]); e != nil || err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { join(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		end()
		all.Wait()
	})
	s.Port = l.Addr().(*net.TCPAddr).Port
	return s, widen
}
