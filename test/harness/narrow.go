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
	wide := make(chan struct{})
	var passed atomic.Int64
	narrow = s.through(t, func(n int) <-chan struct{} {
		if passed.Add(int64(n)) > most {
			return wide
		}
		return nil
	})
	return narrow, sync.OnceFunc(func() { close(wide) })
}

// Quiet is the same source at another port, of which nothing comes any more once hush was called, until speak is.
func (s Source) Quiet(t testing.TB) (quiet Source, hush, speak func()) {
	t.Helper()
	speaks := make(chan struct{})
	var hushed atomic.Bool
	quiet = s.through(t, func(int) <-chan struct{} {
		if hushed.Load() {
			return speaks
		}
		return nil
	})
	return quiet, func() { hushed.Store(true) }, sync.OnceFunc(func() { close(speaks) })
}

// through is the same source at another port. What it answers is passed on when the channel is closed that gate returns for it, at once for nil.
func (s Source) through(t testing.TB, gate func(n int) <-chan struct{}) Source {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	source := fmt.Sprintf("127.0.0.1:%d", s.Port)
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
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
			if open := gate(n); open != nil {
				select {
				case <-open:
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
	return s
}
