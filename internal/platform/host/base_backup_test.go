package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestBaseBackupIsShared: who wants a copy of the same primary while one is made gets one
// of that, before its maker goes on to move it; a failure is everybody's.
func TestBaseBackupIsShared(t *testing.T) {
	for name, failure := range map[string]error{"made": nil, "failed": errors.New("no room")} {
		t.Run(name, func(t *testing.T) {
			cs, dir, other := newClusterState(1), t.TempDir(), t.TempDir()
			mine, first := cs.joinBaseBackup(0, dir)
			theirs, second := cs.joinBaseBackup(0, other)
			if !first || second || mine != theirs {
				t.Fatalf("both make one: %t, %t", first, second)
			}
			if _, maker := cs.joinBaseBackup(1, t.TempDir()); !maker {
				t.Error("the copy of another node is taken")
			}
			if err := os.WriteFile(filepath.Join(dir, "data"), []byte("1"), 0o600); err != nil {
				t.Fatal(err)
			}
			taken := make(chan error)
			go func() { taken <- theirs.copyTo(t.Context(), other) }()
			if err := cs.endBaseBackup(mine, failure); !errors.Is(err, failure) {
				t.Error(err)
			}
			if err := os.RemoveAll(dir); err != nil { // as after moving it
				t.Fatal(err)
			}
			if err := <-taken; !errors.Is(err, failure) {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(other, "data")); (err == nil) != (failure == nil) {
				t.Errorf("taken: %v", err)
			}
			if _, maker := cs.joinBaseBackup(0, dir); !maker {
				t.Error("a copy that is complete is joined")
			}
		})
	}
}
