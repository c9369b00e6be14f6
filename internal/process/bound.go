package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// StartBound starts a program that ends when this process does, however that ends, and calls ended once it has, with what Wait returned.
//
// The signal at the parent's death is in truth one at the death of the thread that started the program, which Go may end at any time: a thread
// of its own waits for the program.
func StartBound(cmd *exec.Cmd, ended func(error)) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}
