package process

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is what all processes of a server have used together since they began, and
// the memory that they use now.
type Usage struct {
	CPU time.Duration
	// Memory is in bytes, without what the kernel only keeps of files and can let go.
	Memory int64
	// ReadBytes and WriteBytes went from and to storage. ReadOps and WriteOps are the storage's
	// operations where the kernel counts them for the group, and else the calls to read and write.
	ReadBytes, WriteBytes, ReadOps, WriteOps int64
	// Written is how many bytes were written to files, whether they have gone to storage yet or not; where the
	// group counts all else, as many as have.
	Written int64

	// Exact reports that the processor time is what the group counts: all of it, at once and to the microsecond.
	Exact bool
	// Idle reports that next to nothing has been done since the last look: all but the processor time is as it was then.
	Idle bool

	// counted is the processor time, and at when, that all was last looked at.
	counted time.Duration
	at      time.Time
}

// What a server holds, reads and writes isn't looked at anew as long as it has used next to no processor time since: it can't have done
// much, and what it has is seen with the rest, at the latest after a while.
const (
	idleCPU  = 5 * time.Millisecond
	idleTime = time.Minute
)

// Usage is that of a server, by its process and its group, which may be nil. What the group doesn't
// count is summed up over the processes: one that ends leaves its counts to its parent. last is what it was before; zero
// when that isn't known.
func (p *Process) Usage(g Group, last Usage) (Usage, error) {
	var members []int
	var counted counts
	if g != nil {
		now := g.cpu()
		if now != nil && last.idleUntil(*now) {
			last.CPU, last.Idle = *now, true
			return last, nil
		}
		counted = g.counts()
		counted.cpu = now
		var err error
		if members, err = g.pids(); err != nil {
			return Usage{}, err
		}
	}
	if len(members) == 0 { // what was started before there were groups
		members, counted = descendants(p.Pid()), counts{}
	}
	var u Usage
	if counted.cpu == nil || counted.memory == nil || counted.io == nil {
		u = sumUp(members, counted)
	}
	if counted.cpu != nil {
		u.CPU, u.Exact = *counted.cpu, true
	}
	if counted.memory != nil {
		u.Memory = *counted.memory
	}
	if counted.io != nil {
		u.ReadBytes, u.WriteBytes, u.ReadOps, u.WriteOps = counted.io.ReadBytes, counted.io.WriteBytes, counted.io.ReadOps, counted.io.WriteOps
		u.Written = u.WriteBytes
	}
	u.counted, u.at = u.CPU, time.Now()
	return u, nil
}

// GroupCPU is the processor time that a server's group, which may be nil, has used by now; not ok where it isn't counted.
func GroupCPU(g Group) (used time.Duration, ok bool) {
	if g == nil {
		return 0, false
	}
	counted := g.cpu()
	if counted == nil {
		return 0, false
	}
	return *counted, true
}

// idleUntil reports whether next to nothing was done since all was looked at, going by the processor time.
func (u Usage) idleUntil(cpu time.Duration) bool {
	return !u.at.IsZero() && cpu >= u.counted && cpu-u.counted < idleCPU && time.Since(u.at) < idleTime
}

// Excuse has some processor time not count as something that was done: who looks used it.
func (u *Usage) Excuse(used time.Duration) { u.counted += used }

// counts are what a control group counts; nil for what it doesn't.
type counts struct {
	cpu    *time.Duration
	memory *int64
	io     *Usage
}

// descendants are a process and those that it and they have started.
func descendants(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob("/proc/" + strconv.Itoa(all[i]) + "/task/*/children") // the pattern is good
		for _, list := range lists {
			text, err := os.ReadFile(list)
			if err != nil {
				continue // a thread that has ended
			}
			for field := range strings.FieldsSeq(string(text)) {
				if child, err := strconv.Atoi(field); err == nil {
					all = append(all, child)
				}
			}
		}
	}
	return all
}

// sumUp reads from /proc what isn't counted.
func sumUp(pids []int, counted counts) Usage {
	var u Usage
	var shared int64
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid)
		if counted.cpu == nil {
			u.CPU += cpuOf(dir)
		}
		if counted.memory == nil {
			own, with := memoryOf(dir)
			u.Memory += own
			shared = max(shared, with)
		}
		if counted.io == nil {
			u.addIO(dir)
		}
	}
	u.Memory += shared // by all, as a server's processes do
	return u
}

// cpuOf is the processor time of a process and of its children that have ended.
func cpuOf(dir string) time.Duration {
	content, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0 // it has ended
	}
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	const utime, cstime, tick = 11, 14, 10 * time.Millisecond // proc_stat(5), after the name; USER_HZ is 100
	var sum time.Duration
	for i := utime; i <= cstime && i < len(fields); i++ {
		n, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		sum += time.Duration(n) * tick
	}
	return sum
}

// memoryOf is the memory that a process has for itself, and what it shares with others.
func memoryOf(dir string) (own, shared int64) {
	content, err := os.ReadFile(dir + "/statm")
	fields := bytes.Fields(content)
	if err != nil || len(fields) < 3 {
		return 0, 0
	}
	resident, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, _ = strconv.ParseInt(string(fields[2]), 10, 64)
	page := int64(os.Getpagesize())
	return (resident - shared) * page, shared * page
}

// addIO adds what a process, and its children that have ended, read and wrote.
func (u *Usage) addIO(dir string) {
	content, err := os.ReadFile(dir + "/io")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(content)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, _ := strconv.ParseInt(text, 10, 64)
		switch name {
		case "read_bytes":
			u.ReadBytes += n
		case "write_bytes":
			u.WriteBytes += n
		case "syscr":
			u.ReadOps += n
		case "syscw":
			u.WriteOps += n
		case "wchar":
			u.Written += n
		}
	}
}

// pids are the processes in the group, some of which may have ended.
func (g *group) pids() ([]int, error) {
	for _, dir := range g.kind.folders(g.name) {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var list []int
		for field := range strings.FieldsSeq(string(content)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				list = append(list, pid)
			}
		}
		return list, nil
	}
	return nil, nil
}

func (g *group) cpu() *time.Duration { return g.kind.cpu(g.name) }

func (g *group) counts() counts { return g.kind.counts(g.name) }

// number reads a file with a single number; nil when there is none.
func number(dir, file string) *int64 {
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// entry is a number in a file of names and numbers; nil when it has none of the name.
func entry(dir, file, name string) *int64 {
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(content)) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(text, 10, 64); key == name && err == nil {
			return &n
		}
	}
	return nil
}

// working is what is in use of a group's memory.
func working(usage, droppable *int64) *int64 {
	if usage == nil || droppable == nil {
		return nil
	}
	return new(max(0, *usage-*droppable))
}

// cpu reads version 1. Nothing is counted of who was started before there were groups.
func (o *legacy) cpu(name string) *time.Duration {
	for _, dir := range o.folders(name) {
		if n := number(dir, "cpuacct.usage"); n != nil {
			if *n == 0 {
				return nil
			}
			return new(time.Duration(*n))
		}
	}
	return nil
}

// counts reads version 1, which counts of storage only what doesn't go by the kernel's cache.
func (o *legacy) counts(name string) (c counts) {
	for _, dir := range o.folders(name) {
		if usage := number(dir, "memory.usage_in_bytes"); usage != nil {
			c.memory = working(usage, entry(dir, "memory.stat", "total_inactive_file"))
			break
		}
	}
	return c
}

// cpu reads version 2.
func (u *unified) cpu(name string) *time.Duration {
	n := entry(filepath.Join(u.root, name), "cpu.stat", "usage_usec")
	if n == nil {
		return nil
	}
	return new(time.Duration(*n) * time.Microsecond)
}

// counts reads version 2.
func (u *unified) counts(name string) (c counts) {
	dir := filepath.Join(u.root, name)
	c.memory = working(number(dir, "memory.current"), entry(dir, "memory.stat", "inactive_file"))
	content, err := os.ReadFile(filepath.Join(dir, "io.stat"))
	if err != nil {
		return c
	}
	c.io = parseIO(string(content))
	return c
}

// parseIO reads io.stat: "8:0 rbytes=1 wbytes=2 rios=3 wios=4 …", a line for each device.
func parseIO(text string) *Usage {
	var u Usage
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "rbytes":
			u.ReadBytes += n
		case "wbytes":
			u.WriteBytes += n
		case "rios":
			u.ReadOps += n
		case "wios":
			u.WriteOps += n
		}
	}
	return &u
}
