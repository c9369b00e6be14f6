package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"steward/internal/wait"
)

// Process is a running server, started here or adopted.
type Process struct {
	record
	identity Identity
	child    bool
	started  time.Time
	done     chan struct{}
	// leave ends the wait for the process's end; watched is closed when that has ended.
	leave   context.CancelFunc
	watched chan struct{}
	// inside is the server in the sandbox, once it was seen: it keeps its pid
	// while the sandbox, which outlives it by a moment, is still there.
	inside atomic.Pointer[mainProcess]
}

// mainProcess is one that no other can be taken for: pids are used again.
type mainProcess struct {
	pid   int
	start uint64
}

// Adopt finds the server that a pid file tells of. It is nil when that doesn't
// run any more.
func Adopt(pidFile string, id Identity) (*Process, error) {
	r, ok, err := readRecord(pidFile)
	if err != nil || !ok {
		return nil, err
	}
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	if r.Boot != boot || r.Mark != id.Mark {
		return nil, nil
	}
	st, err := readStat(r.Pid)
	if err != nil || st.start != r.Start {
		return nil, nil
	}
	if !alive(r.Pid, r.Start) {
		if st.parent == os.Getpid() { // one that was left: others would take the entry for a process
			reap(r.Pid)
		}
		return nil, nil
	}
	return newProcess(r, id, st.parent == os.Getpid()), nil
}

// newProcess makes a Process of one that runs, and watches it.
func newProcess(r record, id Identity, child bool) *Process {
	p := &Process{record: r, identity: id, child: child, started: startedAt(r.Start), done: make(chan struct{}), watched: make(chan struct{})}
	ctx, leave := context.WithCancel(context.Background())
	p.leave = leave
	go p.watch(ctx)
	return p
}

// Leave ends the watch of a process that runs on: Done is never closed from then on.
// Nothing may be asked of p afterwards.
func (p *Process) Leave() {
	p.leave()
	<-p.watched
}

// watch closes done when the process is gone, and reaps it.
func (p *Process) watch(ctx context.Context) {
	defer close(p.watched)
	defer p.leave()
	if !awaitExit(ctx, p.record.Pid, p.Start) {
		return
	}
	if p.child {
		reap(p.record.Pid)
	}
	close(p.done)
}

// reap takes a dead child's entry out of the process table.
func reap(pid int) {
	for {
		_, err := unix.Wait4(pid, nil, 0, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// Pid is the server's process id: the one in the sandbox, if there is one.
func (p *Process) Pid() int { return p.main().pid }

func (p *Process) main() mainProcess {
	if !p.Sandboxed {
		return mainProcess{p.record.Pid, p.Start}
	}
	if seen := p.inside.Load(); seen != nil {
		return *seen
	}
	inner := children(p.record.Pid)
	if len(inner) != 1 {
		return mainProcess{p.record.Pid, p.Start}
	}
	st, err := readStat(inner[0])
	if err != nil {
		return mainProcess{p.record.Pid, p.Start}
	}
	found := &mainProcess{inner[0], st.start}
	p.inside.Store(found)
	return *found
}

// Done is closed when the server's main process has ended. Others of its
// processes may live on for a moment: KillAll waits for those.
func (p *Process) Done() <-chan struct{} { return p.done }

// Running reports whether the main process runs.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Stopped reports whether the server was stopped by a signal, as in SIGSTOP: it is
// there, and does nothing.
func (p *Process) Stopped() bool {
	m := p.main()
	s, err := readStat(m.pid)
	return err == nil && s.start == m.start && (s.state == 'T' || s.state == 't')
}

// Started is when the process began, the same whenever it is asked.
func (p *Process) Started() time.Time { return p.started }

// startedAt is the time of so many clock ticks after the machine's boot, to a hundredth of a second.
func startedAt(ticks uint64) time.Time {
	const tick = time.Second / 100 // USER_HZ, fixed on every architecture that Go runs on
	for {
		before, now, after := sinceBoot(), time.Now(), sinceBoot()
		if after-before < time.Millisecond { // else another thread had the processor in between
			return now.Add(time.Duration(ticks)*tick - before).Round(tick)
		}
	}
}

func sinceBoot() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // every kernel that has control groups of version 2 has the clock
	return time.Duration(now.Nano())
}

// Signal sends a signal to the server's main process.
func (p *Process) Signal(sig syscall.Signal) error {
	m := p.main()
	return signalExactly(m.pid, sig, func() bool { return p.Running() && alive(m.pid, m.start) })
}

// A Request is how a server is asked to stop.
type Request struct {
	Signal syscall.Signal
	// Patience is how long it may take; then it is killed.
	Patience time.Duration
	// Child is the signal with which a child of the main process, by its title, is asked by itself, as it
	// may miss that the server stops; 0 for the others. Nil if there is none.
	Child func(title string) syscall.Signal
}

// Stop asks the server to stop, waits for it, then kills what is left of
// it. It returns when every process of the server is gone.
func (p *Process) Stop(ctx context.Context, r Request, group Group) error {
	if err := p.Signal(r.Signal); err != nil {
		return err
	}
	if err := p.awaitStop(ctx, r); err != nil {
		return fmt.Errorf("stop server: %w", err)
	}
	if err := KillAll(ctx, p.identity, group); err != nil {
		return err
	}
	select {
	case <-p.done: // noticed a moment after the fact
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop server: %w", ctx.Err())
	}
}

// awaitStop returns when the main process has ended, or patience has.
func (p *Process) awaitStop(ctx context.Context, r Request) error {
	timer, again := time.NewTimer(r.Patience), time.NewTicker(time.Second)
	defer timer.Stop()
	defer again.Stop()
	for {
		select {
		case <-p.done:
			return nil
		case <-timer.C:
			return nil
		case <-again.C:
			if err := EndChildren(p.Pid(), r.Child); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// EndChildren signals the direct children of a process as their titles ask for: see Request.Child.
func EndChildren(pid int, ask func(title string) syscall.Signal) error {
	if ask == nil {
		return nil
	}
	all, err := pids()
	if err != nil {
		return err
	}
	for _, child := range all {
		signal := func() syscall.Signal {
			s, err := readStat(child)
			title, errTitle := readProc(child, "cmdline", procBuffer())
			if err != nil || errTitle != nil || s.parent != pid {
				return 0
			}
			return ask(string(title))
		}
		sig := signal()
		if sig == 0 {
			continue
		}
		if err := signalExactly(child, sig, func() bool { return signal() == sig }); err != nil {
			return err
		}
	}
	return nil
}

// KillAll ends every process of a server at once and returns when all are gone.
// group may be nil.
func KillAll(ctx context.Context, id Identity, group Group) error {
	k := killing{id: id, group: group, killed: map[int]uint64{}}
	pause := time.Millisecond
	for {
		left, err := k.pass()
		if err != nil {
			return fmt.Errorf("kill %s: %w", id.Mark, err)
		}
		if left == 0 {
			return nil
		}
		if wait.Sleep(ctx, pause) != nil {
			return fmt.Errorf("kill %s: %d processes are left: %w", id.Mark, left, ctx.Err())
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// killing is the work of ending one server.
type killing struct {
	id    Identity
	group Group
	// killed are the start times of what was killed. A dying process loses
	// all signs of belonging before it lets go of its files and ports.
	killed map[int]uint64
}

// pass kills what there is and tells how much is left. What it found counts
// even when it is gone by now: it may have had children meanwhile. All processes
// of the machine are gone through only once nothing is left of what was found
// so far, as that takes longest by far.
func (k *killing) pass() (int, error) {
	found := 0
	if k.group != nil {
		members, err := k.group.Members()
		if err != nil {
			return 0, err
		}
		k.note(members)
		found = len(members)
		if found > 0 {
			if err := k.group.Kill(); err != nil {
				return 0, err
			}
		}
	}
	if err := k.again(); err != nil {
		return 0, err
	}
	if left := max(found, len(k.killed)); left > 0 {
		return left, nil
	}
	members, err := k.id.Members()
	if err != nil {
		return 0, err
	}
	k.note(members)
	for _, pid := range members {
		if err := k.id.signalMember(pid, syscall.SIGKILL); err != nil {
			return 0, err
		}
	}
	return len(members), nil
}

// again forgets what has ended, and kills what lives: one whose only sign of belonging is the folder it works in may have been elsewhere at
// the moment of the signal.
func (k *killing) again() error {
	for pid, start := range k.killed {
		if !alive(pid, start) {
			delete(k.killed, pid)
		} else if err := k.id.signalMember(pid, syscall.SIGKILL); err != nil {
			return err
		}
	}
	return nil
}

func (k *killing) note(pids []int) {
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil {
			k.killed[pid] = s.start
		}
	}
}
