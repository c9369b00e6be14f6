package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// stat is what is needed of /proc/PID/stat.
type stat struct {
	state   byte
	parent  int
	threads int
	// terminal is not 0 for what a person runs in a shell; servers have none.
	terminal int
	// start is in clock ticks since boot: with the pid it names a process for good.
	start uint64
}

// gone reports whether only an entry in the process table is left. A dead main
// thread says little: the others hold memory, files and locks until they end.
func (s stat) gone() bool { return (s.state == 'Z' || s.state == 'X') && s.threads <= 1 }

func readStat(pid int) (stat, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// The command's name, in brackets, may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 20 {
		return stat{}, fmt.Errorf("process %d: short stat", pid)
	}
	parent, errParent := strconv.Atoi(string(fields[1]))
	threads, errThreads := strconv.Atoi(string(fields[17]))
	terminal, errTerminal := strconv.Atoi(string(fields[4]))
	start, errStart := strconv.ParseUint(string(fields[19]), 10, 64)
	if err := errors.Join(errParent, errThreads, errTerminal, errStart); err != nil {
		return stat{}, fmt.Errorf("process %d: stat: %w", pid, err)
	}
	return stat{state: fields[0][0], parent: parent, threads: threads, terminal: terminal, start: start}, nil
}

// alive reports whether the very process that had the pid at that start time runs.
func alive(pid int, start uint64) bool {
	s, err := readStat(pid)
	return err == nil && s.start == start && !s.gone()
}

// BootID names the time since the machine was last started.
func BootID() (string, error) {
	content, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// pids are all processes there are.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var list []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list, nil
}

// children are the direct children of a process.
func children(pid int) []int {
	all, err := pids()
	if err != nil {
		return nil
	}
	var list []int
	for _, p := range all {
		if s, err := readStat(p); err == nil && s.parent == pid && !s.gone() {
			list = append(list, p)
		}
	}
	return list
}
