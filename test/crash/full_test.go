package crash

import (
	"context"
	"errors"
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
var exitedLine = regexp.MustCompile(`^time=(\S+) .*server exited; it will be restarted.* in=(\S+)`)

// ended is an end of a server by itself, and the pause before it is started again.
type ended struct {
	at    time.Time
	pause time.Duration
}

func (e ended) String() string {
	return fmt.Sprintf("%s, then %v", e.at.Format("15:04:05.000"), e.pause)
}

// ends are those that steward has told of.
func (w *world) ends() (all []ended) {
	w.t.Helper()
	for _, line := range w.lines("server exited; it will be restarted") {
		found := exitedLine.FindStringSubmatch(line)
		if found == nil {
			w.t.Fatalf("no pause is told: %s", line)
		}
		at, err := time.Parse(time.RFC3339, found[1])
		pause, errPause := time.ParseDuration(found[2])
		if err = errors.Join(err, errPause); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, ended{at, pause})
	}
	return all
}

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
	w := prepared(t, postgresql)
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
	var ends []ended
	w.Eventually("long pauses between starts", func() error {
		if ends = w.ends(); len(ends) == 0 || ends[len(ends)-1].pause < longest {
			return fmt.Errorf("%v", ends)
		}
		return nil
	})
	told, last := time.Now(), ends[len(ends)-1].pause
	t.Logf("ends and pauses: %v", ends)
	for i, end := range ends[1:] {
		before := ends[i]
		if end.pause < before.pause {
			t.Errorf("after %v it is started again in %v", before.pause, end.pause)
		}
		// Whoever wants it to run starts it, once its pause is over. Of short ones the log's times show nothing: an end is told of a little later.
		if lived := end.at.Sub(before.at); before.pause > time.Second && lived < before.pause/2 {
			t.Errorf("it was started before its pause was over: it ended %v after an end whose pause was %v", lived, before.pause)
		}
	}
	others := len(w.lines(`msg="step done" cluster_id=1 node=0 step=start`)) // the first two, and such as came when a pause was over before who waits for that
	for _, text := range []string{`level=WARN msg="bring database back"`, `level=WARN msg="server can't be restarted"`} {
		if n := len(w.lines(text)); n > len(ends)+others-1 {
			t.Errorf("%d lines of %q for %d ends of the server", n, text, len(ends))
		}
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
	if waited := time.Since(told); waited >= last {
		t.Errorf("it waited for %v, though there was room, and its pause was %v", waited, last)
	}
	w.AwaitStatus(d, "active")
}
