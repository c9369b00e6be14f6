package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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

// procPath is that of a file about a process.
func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// readProc reads a file about a process, into buf if it fits. Each of the machine's may be looked at, so there is no call but
// those that it takes: [os.ReadFile] asks for the size, which such a file has not, and tries to have it polled.
func readProc(pid int, name string, buf []byte) ([]byte, error) {
	path := procPath(pid, name)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for content := buf[:0]; ; {
		if len(content) == cap(content) {
			content = slices.Grow(content, procPage)
		}
		n, err := unix.Read(fd, content[len(content):cap(content)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n == 0:
			return content, nil
		}
		content = content[:len(content)+n]
	}
}

// procPage is how much of a file of /proc is read at a time.
const procPage = 4096

// procBuffer is one that most of such files fit into.
func procBuffer() []byte { return make([]byte, 0, 2*procPage) }

// statFields are those of /proc/PID/stat that follow the command's name: number n of proc_pid_stat(5) is at n-3.
func statFields(pid int) ([][]byte, error) {
	content, err := readProc(pid, "stat", make([]byte, 0, 512)) // a line
	if err != nil {
		return nil, err
	}
	// The command's name, in brackets, may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if len(fields) < 50 {
		return nil, fmt.Errorf("process %d: short stat", pid)
	}
	return fields, nil
}

func readStat(pid int) (stat, error) {
	fields, err := statFields(pid)
	if err != nil {
		return stat{}, err
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

// hasEnviron reports whether a process has an environment, and whether it is in the middle of an exec: it has the new program's memory
// then, where the kernel puts an environment before it tells where the code begins.
func hasEnviron(pid int) (has, inExec bool) {
	fields, err := statFields(pid)
	if err != nil || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return false, false
	}
	// PF_EXITING and PF_KTHREAD of the kernel's sched.h: these have no memory at all.
	const exiting, kernelThread = 0x4, 0x200000
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	if err != nil || flags&(exiting|kernelThread) != 0 {
		return false, false
	}
	code, begin, end := string(fields[23]), string(fields[47]), string(fields[48])
	return begin != end, code == "0"
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

// children are the direct children of a process. The kernel numbers processes upwards, so they are sought among those that are numbered
// higher, which are few while it is young. They have lower numbers only when these have begun anew meanwhile.
func children(pid int) []int {
	all, err := pids()
	if err != nil {
		return nil
	}
	isOther := func(p int) bool {
		s, err := readStat(p)
		return err != nil || s.parent != pid || s.gone()
	}
	slices.Sort(all)
	after, _ := slices.BinarySearch(all, pid)
	if list := slices.DeleteFunc(slices.Clone(all[after:]), isOther); len(list) > 0 {
		return list
	}
	return slices.DeleteFunc(all[:after], isOther)
}
