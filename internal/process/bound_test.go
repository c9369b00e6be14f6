package process

import (
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// TestStartBound: a program isn't ended because a thread is that was free when it was started, and its end is told.
func TestStartBound(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := StartBound(cmd, func(err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	var threads sync.WaitGroup
	var all sync.WaitGroup // each on a thread of its own, free ones first
	for range 64 {
		all.Add(1)
		threads.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			all.Done()
			all.Wait()
		})
	}
	threads.Wait()
	if _, err := in.Write([]byte("still there")); err != nil {
		t.Error(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("it ended with %v", err)
	}
	if err := StartBound(exec.Command("/nowhere"), func(error) { t.Error("what never began has ended") }); err == nil {
		t.Error("a program that isn't there was started")
	}
}
