package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"steward/test/harness"
)

// cpuOf is the processor time of processes, all that they started, and all that
// they have waited for, in seconds.
func cpuOf(roots ...int) float64 {
	sum := 0.0
	for _, pid := range harness.Descendants(roots...) {
		sum += ownCPU(pid)
	}
	return sum
}

// ownCPU is that of one process and of those it has waited for.
func ownCPU(pid int) float64 {
	const clockTick = 100 // USER_HZ, fixed on Linux for what /proc shows
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var ticks float64
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	for _, field := range fields[min(11, len(fields)):min(15, len(fields))] {
		n, _ := strconv.ParseFloat(field, 64)
		ticks += n
	}
	return ticks / clockTick
}

// peakOf is the most resident memory a process had since the last call.
func peakOf(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	n, _ := strconv.ParseInt(kilobytes, 10, 64)
	return n << 10
}

// tools runs programs as the user of the servers, and adds up what they use.
type tools struct {
	dir string
	as  *syscall.Credential
	cpu float64
}

// newTools makes the folder that everything of a target is in.
func newTools(account string) (*tools, error) {
	dir, err := os.MkdirTemp("", "backup-bench-")
	if err != nil {
		return nil, err
	}
	t := &tools{dir: dir}
	if os.Geteuid() != 0 {
		return t, nil
	}
	u, err := user.Lookup(account)
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	t.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return t, os.Chown(dir, int(uid), int(gid))
}

func (t *tools) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = t.dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: t.as, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	err := cmd.Run()
	if cmd.ProcessState != nil {
		t.cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	if err != nil {
		text := said.Bytes()
		return fmt.Errorf("%s: %w: %s", name, err, text[max(0, len(text)-2000):])
	}
	return nil
}

// pipeline is a line of shell that fails when any part of it does.
func (t *tools) pipeline(ctx context.Context, line string) error {
	return t.run(ctx, "bash", "-ec", "set -o pipefail\n"+line)
}

// start starts a server, which ends with ours at the latest.
func (t *tools) start(name string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(t.dir+"/server.log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: t.as, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return cmd, nil
}

func freePort() (int, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
