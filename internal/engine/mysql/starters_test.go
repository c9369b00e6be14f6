package mysql

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"steward/internal/engine"
)

// TestStartersRunAtOnce: what mariadb-upgrade starts can be executed, however many other processes are being started.
func TestStartersRunAtOnce(t *testing.T) {
	var others sync.WaitGroup
	done := make(chan struct{})
	defer others.Wait()
	defer close(done)
	for range 8 {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.CommandContext(t.Context(), "/bin/true").Run()
				}
			}
		})
	}
	u := engine.Upgrade{To: engine.Installation{Loader: []string{"/bin/true"}, Bin: map[string]string{}}}
	for _, name := range upgradePrograms {
		u.To.Bin[name] = "/bin/" + name
	}
	for began := time.Now(); time.Since(began) < 2*time.Second; {
		u.Work = t.TempDir()
		if err := writeStarters(u); err != nil {
			t.Fatal(err)
		}
		for _, name := range upgradePrograms {
			if err := exec.CommandContext(t.Context(), filepath.Join(u.Work, name)).Run(); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.RemoveAll(u.Work); err != nil {
			t.Fatal(err)
		}
	}
}
