package logkeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/wait"
)

// eyes see files grow, by the kernel's inotify. Without any nothing is seen. It is asked here and not by fsnotify, which follows links, and the files are
// in folders of servers' users.
type eyes struct {
	file *os.File
	// paths are those of the kernel's numbers.
	paths map[uint32]string
	seen  []byte
}

func watch() (*eyes, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return &eyes{}, fmt.Errorf("watch logs: %w", err)
	}
	return &eyes{file: os.NewFile(uintptr(fd), "inotify"), paths: map[uint32]string{}, seen: make([]byte, 16<<10)}, nil
}

func (e *eyes) close() {
	if e.file != nil {
		e.file.Close()
	}
}

// add watches a file, once, however often it is called. unseen reports that it may have grown without being seen. One that isn't
// there is added later.
func (e *eyes) add(path string) (unseen bool, err error) {
	if e.file == nil {
		return true, nil
	}
	raw, err := e.file.SyscallConn()
	if err != nil {
		return true, fmt.Errorf("watch logs: %w", err)
	}
	var number int
	var failed error
	err = raw.Control(func(fd uintptr) {
		number, failed = unix.InotifyAddWatch(int(fd), path, unix.IN_MODIFY|unix.IN_DONT_FOLLOW)
	})
	if err := errors.Join(err, failed); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return true, fmt.Errorf("watch %s: %w", path, err)
	}
	_, known := e.paths[uint32(number)]
	e.paths[uint32(number)] = path
	return !known, nil
}

// wait returns the files that have grown, or none when the time is over.
func (e *eyes) wait(ctx context.Context, most time.Duration) ([]string, error) {
	if e.file == nil {
		return nil, wait.Sleep(ctx, most)
	}
	stop := context.AfterFunc(ctx, func() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := e.file.SetReadDeadline(time.Now().Add(most)); err != nil {
		return nil, fmt.Errorf("watch logs: %w", err)
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	n, err := e.file.Read(e.seen)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("watch logs: %w", err)
	}
	return e.grown(e.seen[:n]), nil
}

// grown are the files that the kernel's events are about.
func (e *eyes) grown(events []byte) (paths []string) {
	once := map[uint32]bool{}
	for len(events) >= unix.SizeofInotifyEvent {
		number, mask := binary.NativeEndian.Uint32(events), binary.NativeEndian.Uint32(events[4:])
		path, known := e.paths[number]
		switch {
		case mask&unix.IN_IGNORED != 0: // the file is gone
			delete(e.paths, number)
		case mask&unix.IN_Q_OVERFLOW != 0: // any of them may have grown
			for number, path := range e.paths {
				if !once[number] {
					once[number] = true
					paths = append(paths, path)
				}
			}
		case known && !once[number]:
			once[number] = true
			paths = append(paths, path)
		}
		events = events[unix.SizeofInotifyEvent+binary.NativeEndian.Uint32(events[12:]):]
	}
	return paths
}
