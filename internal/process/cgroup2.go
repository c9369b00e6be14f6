package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// unified is version 2: one hierarchy with all controllers.
type unified struct{ root string }

// wantedControllers are those that limits need.
var wantedControllers = []string{"memory", "cpu", "pids"}

var errNoController = errors.New("control groups v2: no controller can be used")

func newUnified(mount, name string) (*Groups, error) {
	enabled, err := enableControllers(mount)
	if err != nil {
		return nil, err
	}
	if len(enabled) == 0 {
		return nil, errNoController
	}
	kind := &unified{root: filepath.Join(mount, name)}
	if err := kind.prepare(); err != nil {
		return nil, err
	}
	below, err := enableControllers(kind.root)
	if err != nil {
		return nil, err
	}
	g := &Groups{kind: kind}
	for _, c := range wantedControllers {
		if !slices.Contains(enabled, c) || !slices.Contains(below, c) {
			g.lacks = append(g.lacks, "control groups v2 without "+c)
		}
	}
	if len(g.lacks) == len(wantedControllers) {
		return nil, errNoController
	}
	return g, nil
}

// enableControllers switches the wanted controllers on for the groups below
// dir, and returns those that then are.
func enableControllers(dir string) ([]string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("control groups v2: %w", err)
	}
	there := strings.Fields(string(content))
	on, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, fmt.Errorf("control groups v2: %w", err)
	}
	enabled := strings.Fields(string(on))
	for _, c := range wantedControllers {
		if !slices.Contains(there, c) || slices.Contains(enabled, c) {
			continue
		}
		// Refused where we may not, or where the folder has processes of its own.
		if err := writeSetting(dir, "cgroup.subtree_control", "+"+c); err == nil {
			enabled = append(enabled, c)
		}
	}
	return enabled, nil
}

func (u *unified) prepare() error {
	err := os.Mkdir(u.root, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = enableControllers(u.root)
	}
	if err != nil {
		return fmt.Errorf("control groups v2: %w", err)
	}
	return nil
}

func (u *unified) folders(name string) []string { return []string{filepath.Join(u.root, name)} }

func (u *unified) limits(l GroupLimits) []setting {
	const period = 100_000
	memory, cpu, pids := "max", "max", "max"
	if l.MemoryBytes > 0 {
		memory = strconv.FormatInt(l.MemoryBytes, 10)
	}
	if l.CPUs > 0 {
		cpu = strconv.Itoa(l.CPUs * period)
	}
	if l.Processes > 0 {
		pids = strconv.Itoa(l.Processes)
	}
	return []setting{
		{file: "memory.max", value: memory},
		{file: "cpu.max", value: cpu + " " + strconv.Itoa(period)},
		{file: "pids.max", value: pids},
		{file: "cpu.weight", value: strconv.Itoa(100 * l.weight()), optional: true},
	}
}

// kill uses the file that kernels since 5.14 have; older ones leave it to the caller.
func (u *unified) kill(name string) error {
	err := writeSetting(filepath.Join(u.root, name), "cgroup.kill", "1")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kill control group: %w", err)
	}
	return nil
}
