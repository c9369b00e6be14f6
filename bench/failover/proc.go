package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steward/test/harness"
)

// A program is a process that this one started and ends.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs a program whose output goes to a log. It lives until stop, whatever
// becomes of the context that wanted it.
func start(as *syscall.Credential, dir, log, name string, args ...string) (*program, error) {
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
	// A group of its own: a Ctrl-C at the terminal is for us, who then end it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &program{cmd, make(chan struct{})}
	go func() { _ = cmd.Wait(); close(p.done) }()
	return p, nil
}

func (p *program) pid() int { return p.cmd.Process.Pid }

func (p *program) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// stop asks first.
func (p *program) stop(patience time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// processesOf are those whose command line names a folder that is ours alone.
func processesOf(dir string) []int {
	var found []int
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(line, []byte(dir)) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// state is the letter of /proc/PID/stat, "" when there is no process.
func state(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	letter, _, _ := strings.Cut(rest, " ")
	return letter
}

// serving tells a process from one that has ended or is stopped.
func serving(pid int) bool {
	switch state(pid) {
	case "", "Z", "X", "T", "t":
		return false
	}
	return true
}

func kill(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill %d: %w", pid, err)
	}
	return nil
}

// freeze stops processes and all that they started, and returns them.
func freeze(roots ...int) ([]int, error) {
	frozen := map[int]bool{}
	var all []int
	for again := true; again; {
		again = false // a child may be born until its parent is stopped
		for _, pid := range harness.Descendants(roots...) {
			if frozen[pid] {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
				thaw(all)
				return nil, fmt.Errorf("stop %d: %w", pid, err)
			}
			frozen[pid], again, all = true, true, append(all, pid)
		}
	}
	return all, nil
}

// thaw continues those that are still stopped.
func thaw(pids []int) {
	for _, pid := range pids {
		if state(pid) == "T" {
			_ = syscall.Kill(pid, syscall.SIGCONT) // it may have been ended meanwhile
		}
	}
}
