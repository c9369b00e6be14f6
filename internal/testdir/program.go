package testdir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// WriteProgram writes a program, in a folder that is made where there is none, which can be executed at once. Nothing is started while it is
// written: a process that is being started has what its parent had open until it is another program, and what is open for writing isn't
// executed.
func WriteProgram(t testing.TB, path, content string) {
	t.Helper()
	triedProcesses()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
}
