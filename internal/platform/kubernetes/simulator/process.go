package simulator

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	hostprocess "steward/internal/process"
)

// process is a server's, in a container.
type process struct {
	// exited is closed when the process has ended; nil before the first start.
	exited chan struct{}
	pid    int
}

// launch starts it; it ends with the test's process, however that ends.
func (p *process) launch(logFile string, argv ...string) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := command(context.Background(), argv...)
	cmd.Stdout, cmd.Stderr = log, log
	exited := make(chan struct{})
	if err := hostprocess.StartBound(cmd, func(error) { close(exited) }); err != nil { // how it ended is in its log
		return fmt.Errorf("start a server: %w", err)
	}
	p.pid, p.exited = cmd.Process.Pid, exited
	return nil
}

func (p *process) running() bool {
	if p.exited == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// stop ends the server: in an orderly way, or as a machine that is lost does. One that has just begun may miss
// the signal: what a shell runs in the background ignores some, and so does what that starts, until it has handlers of its own.
func (p *process) stop(how syscall.Signal) {
	for p.running() {
		_ = syscall.Kill(p.pid, how) // it may have ended
		select {
		case <-p.exited:
		case <-time.After(signalledAgain):
		}
	}
}

const signalledAgain = time.Second
