package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"steward/test/harness"
)

// failoversNeedNoStore: with the store's processes stopped, so that whoever asks it waits,
// primaries are killed, and customers write on.
func failoversNeedNoStore(t *testing.T, s *harness.Server, d harness.Database) {
	t.Helper()
	w := &written{t: t, s: s, d: d, credentials: s.Credentials(d)}
	exec1(t, s.MustConnect(d, w.credentials), "CREATE TABLE away (n int PRIMARY KEY)")
	goOn := stopStore(t, s)
	for range 2 { // also after the first, with a replica that has come back
		t.Logf("writes go on after %s without the store", w.losesPrimary().Round(time.Millisecond))
	}
	goOn()
	w.d = s.AwaitHealthy(w.d, 3, w.killed...)
	primary, _, _ := strings.Cut(s.Primary(w.d).Address, ":")
	s.Eventually("the members say who is the primary", func() error {
		if w.d = s.AwaitStatus(w.d, "active"); w.d.Members[primary] != "primary" {
			return errors.New("not yet")
		}
		return nil
	})
	// Those without the store in one.
	s.Eventually("the failovers are told", func() error { return hasFailovers(s, w.d, 1) })
	if got := one(t, s.MustConnect(w.d, w.credentials), "SELECT count(*) FROM away"); got != "2" {
		t.Errorf("%s rows, want 2", got)
	}
}

// stopStore stops the store's processes where they are. What asks them waits until
// goOn, which the end of the test calls too.
func stopStore(t *testing.T, s *harness.Server) (goOn func()) {
	t.Helper()
	stopped := harness.Descendants(storePID(t, s))
	for _, pid := range stopped {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
	goOn = sync.OnceFunc(func() {
		for _, pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT) // one that has ended needs none
		}
	})
	t.Cleanup(goOn)
	return goOn
}

// written is a database of three that a customer writes to.
type written struct {
	t           *testing.T
	s           *harness.Server
	d           harness.Database
	credentials harness.Credentials
	killed      []int
}

// losesPrimary kills the primary, and returns after how long the next write was
// acknowledged.
func (w *written) losesPrimary() time.Duration {
	w.t.Helper()
	w.s.AwaitNodes(w.d, 3, w.killed...)
	primary := w.s.Primary(w.d).Pid
	w.killed = append(w.killed, primary)
	began := time.Now()
	if err := syscall.Kill(primary, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	w.s.Eventually("a write", w.write)
	return time.Since(began)
}

func (w *written) write() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	db, err := harness.Connect(ctx, w.d, w.credentials, "")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO away VALUES (%d)", len(w.killed))); err != nil {
		return err
	}
	return nil
}

// hasFailovers is nil when that many events tell of a failover.
func hasFailovers(s *harness.Server, d harness.Database, want int) error {
	found := 0
	for _, e := range s.Events() {
		if e.Action == "database_failover" && e.Entity.ID == d.ID {
			found++
		}
	}
	if found < want {
		return fmt.Errorf("%d of %d", found, want)
	}
	return nil
}
