package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"steward/internal/engine"
	"steward/internal/process"
)

// templateUser makes templates when steward is root: initdb insists on a user
// with a name. Clones are given to their clusters' own users.
func (d *Driver) templateUser() int {
	if os.Geteuid() != 0 {
		return 0
	}
	const nobody = 65534
	if u, err := user.Lookup("nobody"); err == nil {
		if uid, err := strconv.Atoi(u.Uid); err == nil && uid != 0 {
			return uid
		}
	}
	return nobody
}

// runAsOwner is the engine.Runner: it runs a program as the owner of the folder.
func (d *Driver) runAsOwner(ctx context.Context, dir string, p engine.Process, stdin []byte) ([]byte, error) {
	cmd, err := d.tool(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &output, &output
	err = runTool(cmd)
	return output.Bytes(), err
}

// pipeAsOwner is the engine.Piper: it runs a program as the owner of the folder,
// with streams.
func (d *Driver) pipeAsOwner(ctx context.Context, dir string, p engine.Process, stdin io.Reader, stdout io.Writer) ([]byte, error) {
	cmd, err := d.tool(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	const words = 4096
	said := &tail{most: words}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, said
	if !p.Polite {
		err = runTool(cmd)
		return said.content, err
	}
	ended := make(chan error)
	go func() {
		process.LowPriority()
		ended <- runTool(cmd)
	}()
	err = <-ended
	return said.content, err
}

// tool is a program that runs in a folder as its owner, and ends with steward:
// what it leaves half done is thrown away.
func (d *Driver) tool(ctx context.Context, dir string, p engine.Process) (*exec.Cmd, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", p.Argv[0], err)
	}
	cmd := exec.CommandContext(ctx, p.Argv[0], p.Argv[1:]...)
	cmd.Dir = dir
	// A mark of its own: who ends the processes of another node, which has the
	// same owner, leaves it alone. Who ends the folder's node ends it.
	cmd.Env = append(slices.Clone(p.Env), process.MarkEnv(d.scope+"/tool"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if owner, ok := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 && ok {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	return cmd, nil
}

func runTool(cmd *exec.Cmd) error {
	// The signal at the parent's death is in truth one at its thread's death.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
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
