package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// legacy is version 1: a hierarchy per controller.
type legacy struct{ roots []string }

func newLegacy(mounts map[string]string, name string) (*Groups, error) {
	g := &Groups{}
	kind := &legacy{}
	for _, controller := range []string{"memory", "cpu", "pids", "cpuacct", "freezer"} {
		mount, there := mounts[controller]
		if !there {
			if controller != "freezer" && controller != "cpuacct" { // these limit nothing
				g.lacks = append(g.lacks, "control groups v1 without "+controller)
			}
			continue
		}
		root := filepath.Join(mount, name)
		if !slices.Contains(kind.roots, root) { // cpu and cpuacct may share one
			kind.roots = append(kind.roots, root)
		}
	}
	if len(kind.roots) == 0 {
		return nil, errors.New("control groups v1: no controller can be used")
	}
	g.kind = kind
	return g, kind.prepare()
}

func (o *legacy) prepare() error {
	for _, root := range o.roots {
		if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("control groups v1: %w", err)
		}
	}
	return nil
}

func (o *legacy) folders(name string) []string {
	list := make([]string, len(o.roots))
	for i, root := range o.roots {
		list[i] = filepath.Join(root, name)
	}
	return list
}

func (o *legacy) limits(l GroupLimits) []setting {
	const period = 100_000
	memory, quota, pids := "-1", "-1", "max"
	if l.MemoryBytes > 0 {
		memory = strconv.FormatInt(l.MemoryBytes, 10)
	}
	if l.CPUs > 0 {
		quota = strconv.Itoa(l.CPUs * period)
	}
	if l.Processes > 0 {
		pids = strconv.Itoa(l.Processes)
	}
	return []setting{
		{file: "memory.limit_in_bytes", value: memory},
		{file: "cpu.cfs_period_us", value: strconv.Itoa(period)},
		{file: "cpu.cfs_quota_us", value: quota},
		{file: "cpu.shares", value: strconv.Itoa(1024 * l.weight()), optional: true},
		{file: "pids.max", value: pids},
	}
}

// kill has no counterpart in version 1; the caller goes on until all are gone.
func (o *legacy) kill(string) error { return nil }
