package memplatform

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"steward/internal/cluster"
)

// Step is one of the things a driver does, where a fault can be placed.
type Step string

// The steps: the first six are those of Apply, in order.
const (
	StepFiles     Step = "files"
	StepPatch     Step = "patch"
	StepConfigure Step = "configure"
	StepStart     Step = "start"
	StepBootstrap Step = "bootstrap"
	StepRoute     Step = "route"
	StepStop      Step = "stop" // all that Apply does to a suspended cluster
	StepObserve   Step = "observe"
	StepRemove    Step = "remove"
	StepPassword  Step = "set password"
	StepReadOnly  Step = "set read only"
	StepBackup    Step = "backup"
	StepCopy      Step = "copy" // a piece of what is backed up, restored or verified
	StepSwap      Step = "swap" // a restore makes what it has read that of the cluster
	StepUndo      Step = "undo restore"
	StepVerify    Step = "verify backup"
	StepMove      Step = "move to another series" // up to the pause, and its announcement
	StepAbandon   Step = "abandon upgrade"
	StepFinish    Step = "finish upgrade"
	StepTry       Step = "try upgrade"
	StepDrop      Step = "drop backup"
	StepMeasure   Step = "measure"
	StepInspect   Step = "inspect"
	StepInside    Step = "inside"
	StepImport    Step = "import"
	StepFollow    Step = "follow"
	StepRelease   Step = "release"
)

// Steps are all of them, for harnesses that fail each in turn.
var Steps = []Step{
	StepFiles, StepPatch, StepConfigure, StepStart, StepBootstrap, StepRoute, StepStop,
	StepObserve, StepRemove, StepPassword, StepReadOnly,
	StepBackup, StepCopy, StepSwap, StepUndo, StepVerify,
}

// ErrInjected is what a failing step returns unless a Fault says otherwise.
var ErrInjected = errors.New("injected fault")

// Fault makes a step go wrong.
type Fault struct {
	Step Step
	// Cluster limits the fault to one cluster; 0 means all.
	Cluster cluster.ID
	// After lets the step do its work before it fails: what a lost answer looks like.
	After bool
	// Times is how often the fault strikes; 0 means always.
	Times int
	// Delay is waited before the step, or until the context ends.
	Delay time.Duration
	// Err is returned by the step. When it and Problem are empty and Delay is
	// not, the step is only slow.
	Err error
	// Problem makes Apply report a permanent problem instead of an error.
	Problem string
	// Do is called when the fault strikes, for tests that act in the middle of a step.
	Do func()
}

// permanent is a problem that repeating Apply won't help with.
type permanent struct{ problem string }

func (p *permanent) Error() string { return p.problem }

type faults struct {
	mu   sync.Mutex
	list []*Fault
	log  []Step
	// looks counts the observations of each cluster.
	looks map[cluster.ID]int
}

// Inject places a fault. It stays until it has struck Times times or Clear is called.
func (d *Driver) Inject(f Fault) {
	if f.Err == nil && f.Problem == "" && f.Delay == 0 && f.Do == nil {
		f.Err = ErrInjected
	}
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.list = append(d.faults.list, &f)
}

// Clear takes all faults away.
func (d *Driver) Clear() {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	d.faults.list = nil
}

// Done are the steps begun so far, in order.
func (d *Driver) Done() []Step {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	return slices.Clone(d.faults.log)
}

// Looks is how often a cluster was observed.
func (d *Driver) Looks(id cluster.ID) int {
	d.faults.mu.Lock()
	defer d.faults.mu.Unlock()
	return d.faults.looks[id]
}

// around does a step with the faults placed on it.
func (f *faults) around(ctx context.Context, step Step, id cluster.ID, do func() error) error {
	fault := f.strike(step, id)
	if fault == nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		return do()
	}
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fault.Do != nil {
		fault.Do()
	}
	failure := fault.Err
	if fault.Problem != "" {
		failure = &permanent{fault.Problem}
	}
	if failure == nil || fault.After {
		if err := do(); err != nil {
			return err
		}
	}
	return failure
}

func (f *faults) strike(step Step, id cluster.ID) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, step)
	if step == StepObserve {
		if f.looks == nil {
			f.looks = map[cluster.ID]int{}
		}
		f.looks[id]++
	}
	for i, fault := range f.list {
		if fault.Step != step || fault.Cluster != 0 && fault.Cluster != id {
			continue
		}
		if fault.Times == 1 {
			f.list = slices.Delete(f.list, i, i+1)
		} else if fault.Times > 1 {
			fault.Times--
		}
		struck := *fault
		return &struck
	}
	return nil
}
