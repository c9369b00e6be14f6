package simulator

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	hostprocess "steward/internal/process"
)

// slowToListen is set for the process that TestStopOfOneThatHasJustBegun starts.
const slowToListen = "STEWARD_TEST_SLOW_TO_LISTEN"

// TestStopOfOneThatHasJustBegun: a signal that is ignored, because whoever began the tests ignored it, isn't waited for in vain.
func TestStopOfOneThatHasJustBegun(t *testing.T) {
	if os.Getenv(slowToListen) != "" {
		time.Sleep(100 * time.Millisecond) // until then it ignores what its parent ignores
		interrupted := make(chan os.Signal, 1)
		signal.Notify(interrupted, syscall.SIGINT)
		<-interrupted
		return
	}
	t.Setenv(slowToListen, "yes")
	signal.Ignore(syscall.SIGINT)
	t.Cleanup(func() { signal.Reset(syscall.SIGINT) })
	exited := make(chan struct{})
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	if err := hostprocess.StartBound(cmd, func(error) { close(exited) }); err != nil {
		t.Fatal(err)
	}
	p := &process{pid: cmd.Process.Pid, exited: exited}
	t.Cleanup(func() { p.stop(syscall.SIGKILL) })
	stopped := make(chan struct{})
	go func() { p.stop(syscall.SIGINT); close(stopped) }()
	await.True(t, "it ends", func() bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	})
}
