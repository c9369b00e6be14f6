package testdir

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Ports lie below those that the kernel hands out by itself, in blocks: a test
// has whole ones.
const (
	firstPort = 15000
	lastPort  = 32000
	portBlock = 10
)

// Ports are n in a row that nothing listens on, for one test: the first of them.
// No test that runs at the same time, in whichever process, has one of these.
func Ports(t testing.TB, n int) (first int) {
	t.Helper()
	blocks := (n + portBlock - 1) / portBlock
	for range 1000 {
		first = firstPort + rand.IntN((lastPort-firstPort)/portBlock-blocks+1)*portBlock
		release, err := claim(t.Context(), first, blocks)
		if err == nil {
			t.Cleanup(release)
			return first
		}
	}
	t.Fatalf("no %d ports in a row are free", n)
	return 0
}

// claim takes blocks of ports by binding a name for each, which ends with the
// process, and sees that they are free: others than tests don't ask.
func claim(ctx context.Context, first, blocks int) (release func(), err error) {
	var names []net.Listener
	var sockets net.ListenConfig
	release = func() {
		for _, l := range names {
			_ = Free(l)
		}
	}
	for port := first; port < first+blocks*portBlock && err == nil; port++ {
		if (port-first)%portBlock == 0 {
			var name net.Listener
			if name, err = sockets.Listen(ctx, "unix", fmt.Sprintf("@steward-test-ports-%d", port)); err != nil {
				break
			}
			names = append(names, name)
		}
		var l net.Listener
		if l, err = sockets.Listen(ctx, "tcp", fmt.Sprintf(":%d", port)); err == nil {
			err = Free(l)
		}
	}
	if err != nil {
		release()
		return nil, errors.Join(errors.New("ports are in use"), err)
	}
	return release, nil
}

// Refused is an address of 127.0.0.1 that refuses connections until the test ends: nothing else can have its port meanwhile,
// because a socket that doesn't listen has it.
func Refused(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// triedProcesses returns when package os has seen what the kernel offers for processes: for that it starts one by itself,
// once, past syscall.ForkLock (os.checkPidfd).
var triedProcesses = sync.OnceFunc(func() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		_ = p.Release()
	}
})

// Free closes a listener so that its port or name is free when Free returns. A
// process that is being started has every listener of its parent until shortly
// after it is another program: Free waits for those and lets no other start.
func Free(l net.Listener) error {
	triedProcesses()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	var sockets net.ListenConfig
	err := l.Close()
	for deadline := time.Now().Add(5 * time.Second); err == nil; time.Sleep(100 * time.Microsecond) {
		var again net.Listener
		if again, err = sockets.Listen(context.Background(), l.Addr().Network(), l.Addr().String()); err == nil {
			return again.Close()
		}
		if errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(deadline) {
			err = nil
		}
	}
	return err
}
