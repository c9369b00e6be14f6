package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// signalExactly opens a handle on the process, asks still whether it is the
// one meant, and signals through the handle.
func signalExactly(pid int, sig syscall.Signal, still func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) {
		if !still() {
			return nil
		}
		return ignoreGone(syscall.Kill(pid, sig))
	}
	if err != nil {
		return ignoreGone(err)
	}
	defer unix.Close(fd)
	if !still() {
		return nil
	}
	return ignoreGone(unix.PidfdSendSignal(fd, sig, nil, 0))
}

// awaitExit blocks until the process is gone, without holding a thread, also
// for processes that aren't children of this one. Zombies count as gone. It is
// false when ctx ended before the process.
func awaitExit(ctx context.Context, pid int, start uint64) (gone bool) {
	err := awaitHandle(ctx, pid, start)
	if err == nil || ctx.Err() != nil {
		return err == nil
	}
	// A kernel without pidfd: look now and then.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for alive(pid, start) {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	return true
}

func awaitHandle(ctx context.Context, pid int, start uint64) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open handle of process %d: %w", pid, err)
	}
	handle := os.NewFile(uintptr(fd), "pidfd")
	defer handle.Close()
	if !alive(pid, start) {
		return nil // the handle may be a newcomer's
	}
	defer context.AfterFunc(ctx, func() { _ = handle.SetReadDeadline(time.Unix(1, 0)) })() // a handle can be waited for, or Read fails
	conn, err := handle.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	err = conn.Read(func(fd uintptr) bool {
		ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(ready, 0)
		return err == nil && n == 1
	})
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", pid, err)
	}
	return nil
}
