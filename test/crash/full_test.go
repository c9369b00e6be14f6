package crash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// exitedLine is what steward logs when a server has ended by itself.
var exitedLine = regexp.MustCompile(`server exited; it will be restarted.* in=(\S+)`)

// lines are those of steward's log in which a text is.
func (w *world) lines(text string) (found []string) {
	w.t.Helper()
	log, err := os.ReadFile(w.LogPath)
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestServerWithoutRoom: a server whose disk is full ends as often as it is started. That is less and less often, whoever wants it to
// run, nobody says more of it than what is new, and it is back at once when there is room.
func TestServerWithoutRoom(t *testing.T) {
	t.Parallel()
	w := prepared(t)
	w.Start()
	d := w.CreateActive(harness.Small("full", "postgresql/15"))
	b := &sampled{world: w}
	b.ask(d, "suspend", "suspended")
	node := filepath.Join(w.Data, "clusters", fmt.Sprint(d.ID), "node-0")
	disk := w.newSmallDisk(node)
	d = b.ask(d, "resume", "active")
	credentials := w.Credentials(d)
	db := w.MustConnect(d, credentials)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE filled (t text)"); err != nil {
		t.Fatal(err)
	}
	disk.fill()
	var err error
	for err == nil { // its log alone: for what tables have no room statements fail
		_, err = db.ExecContext(t.Context(), "SELECT pg_logical_emit_message(false, 'filled', repeat('x', 1000000))")
	}
	t.Log(err)
	const longest = 10 * time.Second
	var pauses []time.Duration
	w.Eventually("long pauses between starts", func() error {
		pauses = nil
		for _, line := range w.lines("server exited; it will be restarted") {
			found := exitedLine.FindStringSubmatch(line)
			if found == nil {
				t.Fatalf("no pause is told: %s", line)
			}
			pause, err := time.ParseDuration(found[1])
			if err != nil {
				t.Fatal(err)
			}
			pauses = append(pauses, pause)
		}
		if len(pauses) == 0 || pauses[len(pauses)-1] < longest {
			return fmt.Errorf("%v", pauses)
		}
		return nil
	})
	told := time.Now()
	t.Logf("pauses: %v", pauses)
	for i, pause := range pauses[1:] {
		if pause < pauses[i] {
			t.Errorf("after %v it is started again in %v", pauses[i], pause)
		}
	}
	for _, text := range []string{`level=WARN msg="bring database back"`, `level=WARN msg="server can't be restarted"`} {
		if n := len(w.lines(text)); n > len(pauses)+2 {
			t.Errorf("%d lines of %q for %d ends of the server", n, text, len(pauses))
		}
	}
	if n := len(w.lines(`msg="step done" cluster_id=1 node=0 step=start`)); n > 4 { // the first two, and one before it kept ending
		t.Errorf("it was started %d times by others than who waits for its time", n)
	}
	disk.widen()
	w.Eventually("it takes writes again", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		db, err := harness.Connect(ctx, d, credentials, "")
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(ctx, "INSERT INTO filled VALUES ('last')")
		return err
	})
	if waited := time.Since(told); waited >= pauses[len(pauses)-1] {
		t.Errorf("it waited for %v, though there was room, and its pause was %v", waited, pauses[len(pauses)-1])
	}
	w.AwaitStatus(d, "active")
}
