package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steward/internal/wait"
)

// GroupLimits bound all processes of a server together. 0 leaves one open.
type GroupLimits struct {
	MemoryBytes int64
	// CPUs is how many processors' time it may use.
	CPUs int
	// Weight is its share of busy processors beside other groups, as of one that may use as many; CPUs when 0.
	Weight int `json:",omitempty"`
	// Processes is how many processes and threads it may have.
	Processes int
}

// weight is the share in processors.
func (l GroupLimits) weight() int { return cmp.Or(l.Weight, max(1, l.CPUs)) }

// Group is the control group of one server.
type Group interface {
	// Add moves a process in; what it forks later is born inside.
	Add(pid int) error
	// Limit sets limits, also while processes run.
	Limit(l GroupLimits) error
	// Kill kills every process inside, without waiting for its end.
	Kill() error
	// Members are the living processes inside.
	Members() ([]int, error)
	// Remove takes the empty group away; nil when there is none. The kernel may
	// need a moment after the last process has ended.
	Remove(ctx context.Context) error
	// pids are the processes inside, some of which may have ended, cpu is the processor time of all of them, nil when it isn't
	// counted, and counts what else is.
	pids() ([]int, error)
	cpu() *time.Duration
	counts() counts
}

// Groups makes control groups below one folder of steward's own. Nil Groups
// are valid: they hand out nil.
type Groups struct {
	kind  groupKind
	lacks []string
}

// groupKind is what differs between the versions of the kernel's interface.
type groupKind interface {
	// prepare makes the folder of all groups, if it isn't there.
	prepare() error
	// folders are where the group of a name has its files.
	folders(name string) []string
	// limits are the files to write, in order.
	limits(l GroupLimits) []setting
	// kill ends all processes of a group at once, when the kernel has a way.
	kill(name string) error
	// counts are what the kernel counts of a group.
	cpu(name string) *time.Duration
	counts(name string) counts
}

// setting is one value of a group. An optional one may be refused.
type setting struct {
	file, value string
	optional    bool
}

// FindGroups looks for control groups that can be used and makes a folder of
// that name in them. Without any it returns nil and the reason.
func FindGroups(name string) (*Groups, error) { return findGroups("/proc/self/mounts", name) }

func findGroups(mountsFile, name string) (*Groups, error) {
	content, err := os.ReadFile(mountsFile)
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	two, one := mounts(string(content))
	var reasons []error
	if two != "" {
		g, err := newUnified(two, name)
		if err == nil {
			return g, nil
		}
		reasons = append(reasons, err)
	}
	if len(one) > 0 {
		g, err := newLegacy(one, name)
		if err == nil {
			return g, nil
		}
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return nil, errors.New("no control groups are mounted")
	}
	return nil, errors.Join(reasons...)
}

// mounts finds the version 2 hierarchy and version 1's by controller.
func mounts(table string) (two string, one map[string]string) {
	one = map[string]string{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 4 {
			continue
		}
		switch f[2] {
		case "cgroup2":
			two = f[1]
		case "cgroup":
			for option := range strings.SplitSeq(f[3], ",") {
				if slices.Contains([]string{"memory", "cpu", "cpuacct", "pids", "freezer"}, option) {
					one[option] = f[1]
				}
			}
		}
	}
	return two, one
}

// Lacks says what the groups can't do here, for operators.
func (g *Groups) Lacks() []string {
	if g == nil {
		return nil
	}
	return g.lacks
}

// Kind is "cgroup v1", "cgroup v2" or "none".
func (g *Groups) Kind() string {
	if g == nil {
		return "none"
	}
	switch g.kind.(type) {
	case *unified:
		return "cgroup v2"
	default:
		return "cgroup v1"
	}
}

// Make makes the group of a server, or finds it, and sets its limits.
func (g *Groups) Make(name string, l GroupLimits) (Group, error) {
	if g == nil {
		return nil, nil
	}
	if err := g.kind.prepare(); err != nil {
		return nil, err
	}
	for _, dir := range g.kind.folders(name) {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("make control group: %w", err)
		}
	}
	made := &group{name: name, kind: g.kind}
	return made, made.Limit(l)
}

// Find is the group of a server without making it; its methods don't mind when
// there is none.
func (g *Groups) Find(name string) Group {
	if g == nil {
		return nil
	}
	return &group{name: name, kind: g.kind}
}

// Names are the servers that have groups.
func (g *Groups) Names() ([]string, error) {
	if g == nil {
		return nil, nil
	}
	var names []string
	for _, dir := range g.kind.folders("") {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list control groups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// Close removes the folder of all groups; it fails while any group is left.
func (g *Groups) Close(ctx context.Context) error {
	if g == nil {
		return nil
	}
	return (&group{kind: g.kind}).Remove(ctx)
}

type group struct {
	name string
	kind groupKind
}

func (g *group) Add(pid int) error {
	for _, dir := range g.kind.folders(g.name) {
		if err := writeSetting(dir, "cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("move process into control group: %w", err)
		}
	}
	return nil
}

func (g *group) Limit(l GroupLimits) error {
	folders := g.kind.folders(g.name)
	for _, s := range g.kind.limits(l) {
		if err := g.set(folders, s); err != nil && !s.optional {
			return fmt.Errorf("limit control group: %w", err)
		}
	}
	return nil
}

// set writes a setting in the folder whose controller has it.
func (g *group) set(folders []string, s setting) error {
	for _, dir := range folders {
		if _, err := os.Stat(filepath.Join(dir, s.file)); err == nil {
			return writeSetting(dir, s.file, s.value)
		}
	}
	return nil // the controller isn't there: told by Lacks
}

func (g *group) Kill() error {
	members, err := g.Members()
	if err != nil || len(members) == 0 {
		return err
	}
	if err := g.kind.kill(g.name); err != nil {
		return err
	}
	for _, pid := range members {
		still := func() bool { return g.has(pid) }
		if err := signalExactly(pid, syscall.SIGKILL, still); err != nil {
			return err
		}
	}
	return nil
}

func (g *group) Members() ([]int, error) {
	var list []int
	for _, dir := range g.kind.folders(g.name) {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("members of control group: %w", err)
		}
		for field := range strings.FieldsSeq(string(content)) {
			pid, err := strconv.Atoi(field)
			if err != nil || pid <= 0 || slices.Contains(list, pid) {
				continue
			}
			if st, err := readStat(pid); err == nil && !st.gone() {
				list = append(list, pid)
			}
		}
	}
	return list, nil
}

// has reports whether a process is in the group, be it alive or not.
func (g *group) has(pid int) bool {
	for _, dir := range g.kind.folders(g.name) {
		content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err == nil && slices.Contains(strings.Fields(string(content)), strconv.Itoa(pid)) {
			return true
		}
	}
	return false
}

func (g *group) Remove(ctx context.Context) error {
	for _, dir := range g.kind.folders(g.name) {
		err := syscall.Rmdir(dir)
		for pause := time.Millisecond; errors.Is(err, syscall.EBUSY); pause = min(2*pause, 50*time.Millisecond) {
			if wait.Sleep(ctx, pause) != nil {
				return fmt.Errorf("remove control group %s: %w: %w", dir, err, ctx.Err())
			}
			err = syscall.Rmdir(dir)
		}
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
	}
	return nil
}

func writeSetting(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
