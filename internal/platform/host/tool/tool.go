// Package tool runs programs to their end as the owner of a folder.
package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steward/internal/engine"
	"steward/internal/process"
)

// Runner runs programs with a mark, by which they are found.
type Runner struct{ Mark string }

// Mark is that of programs that this process runs. scope begins the marks of all processes of one data folder.
func Mark(scope string) string { return marks(scope) + strconv.Itoa(os.Getpid()) }

// marks begins those of a data folder's programs; the pid of the process that runs them follows.
func marks(scope string) string { return scope + "/tool-" }

// EndOrphans ends what programs of processes that have ended left. All of them end with the process that runs them, but a sandbox
// that is killed as it begins leaves its inner process, which waits to be let go on for ever.
func EndOrphans(ctx context.Context, scope string) error {
	marked, err := process.Marked(marks(scope))
	if err != nil {
		return fmt.Errorf("look for programs that were left: %w", err)
	}
	for mark := range marked {
		pid, err := strconv.Atoi(strings.TrimPrefix(mark, marks(scope)))
		if err == nil && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue // who runs it is there
		}
		if err := process.KillAll(ctx, process.Identity{Mark: mark}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Run is an engine.Runner: it runs a program as the owner of the folder.
func (r Runner) Run(ctx context.Context, dir string, p engine.Process, stdin []byte) ([]byte, error) {
	cmd, err := r.command(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &output, &output
	err = run(cmd)
	return output.Bytes(), err
}

// Pipe is an engine.Piper: it runs a program as the owner of the folder, with streams.
func (r Runner) Pipe(ctx context.Context, dir string, p engine.Process, stdin io.Reader, stdout io.Writer) ([]byte, error) {
	cmd, err := r.command(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	const words = 4096
	said := &tail{most: words}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, said
	if !p.Polite {
		err = run(cmd)
		return said.content, err
	}
	ended := make(chan error)
	go func() {
		process.LowPriority()
		ended <- run(cmd)
	}()
	err = <-ended
	return said.content, err
}

// command is a program that runs in a folder as its owner, and ends with steward:
// what it leaves half done is thrown away.
func (r Runner) command(ctx context.Context, dir string, p engine.Process) (*exec.Cmd, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", p.Argv[0], err)
	}
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Dir = dir
	// A mark of its own: who ends the processes of another node, which has the
	// same owner, leaves it alone. Who ends the folder's node ends it.
	cmd.Env = append(slices.Clone(p.Env), process.MarkEnv(r.Mark))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if owner, ok := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && ok {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	return cmd, nil
}

// outlived is how long what a program has started may go on writing after its end.
const outlived = 5 * time.Second

func run(cmd *exec.Cmd) error {
	cmd.WaitDelay = outlived
	// The signal at the parent's death is in truth one at its thread's death.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if cmd.Process != nil { // a program that was killed as it began leaves the part of it that would have watched its end
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nobody may be left
		}
		return fmt.Errorf("run %s: %w", cmd.Path, err)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	content []byte
	most    int
}

func (t *tail) Write(p []byte) (int, error) {
	t.content = append(t.content, p...)
	t.content = t.content[max(0, len(t.content)-t.most):]
	return len(p), nil
}
