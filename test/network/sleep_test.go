package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/test/harness"
)

// TestSleepingDatabases: nothing of one runs, also while steward is killed, and who may
// connect finds it each time.
func TestSleepingDatabases(t *testing.T) { sleepingDatabases(t, "postgresql/15", 2) }

func TestSleepingDatabasesThorough(t *testing.T) { sleepingDatabases(t, "mysql/10.11", 5) }

func sleepingDatabases(t *testing.T, engine string, hours int) {
	p := newPlaceWith(t, []harness.Option{harness.WithTags("failpoint")}, "STEWARD_MINUTE=100ms")
	family, _, _ := strings.Cut(engine, "/")
	spec := harness.Small("asleep-"+family, engine)
	spec["allow_list"], spec["auto_suspend"] = p.list(7), map[string]any{"idle_minutes": 1}
	d := p.CreateActive(spec)
	credentials := p.Credentials(d)
	exec := func(source int, statement string) error {
		db, err := harness.ConnectBy(t.Context(), d, credentials, p.dial(source))
		if err != nil {
			return err
		}
		defer db.Close()
		_, err = db.ExecContext(t.Context(), statement)
		return err
	}
	write := func(n, source int) error { return exec(source, fmt.Sprintf("INSERT INTO kept VALUES (%d)", n)) }
	if err := exec(7, "CREATE TABLE kept (n int PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	p.mustSleep(t, d)
	for hour := range hours {
		if hour == hours/2 {
			p.Kill()
			p.Start()
			p.mustSleep(t, d)
		}
		begun := time.Now()
		if err := write(hour, 7); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: a row is written %s after the connect", family, time.Since(begun))
		p.mustSleep(t, d)
	}

	// Strangers are refused at once, and wake nothing.
	c, err := p.dial(8)(t.Context(), "tcp", fmt.Sprintf("%s:%d", p.primary, d.Port))
	if err == nil {
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Read(make([]byte, 1))
		c.Close()
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a stranger: %v", err)
	}
	// A new list takes effect without a server.
	if status, body := p.Call("PUT", d.Path(), map[string]any{"allow_list": p.list(8)}, nil); status != 200 {
		t.Fatal(status, body)
	}
	p.AwaitStatus(d, "active")
	p.mustSleep(t, d)
	if err := write(10, 7); err == nil {
		t.Error("an address that was taken off the list got in")
	}
	p.mustSleep(t, d)
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			if err := write(100+n, 8); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()

	// What needs the server wakes it.
	for _, path := range []string{"/credentials/reset", "/patch"} {
		p.mustSleep(t, d)
		if status, body := p.Call("POST", d.Path()+path, nil, nil); status != 200 {
			t.Fatal(path, status, body)
		}
		p.AwaitStatus(d, "active")
	}
	credentials = p.Credentials(d)
	p.mustSleep(t, d)
	b := p.Snapshot(d, "asleep", "primary")
	p.mustSleep(t, d)
	p.Restore(d, b)
	db := p.connectAs(d, credentials, 8)
	var rows int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM kept").Scan(&rows); err != nil || rows != hours+20 {
		t.Errorf("%d rows, want %d: %v", rows, hours+20, err)
	}
	db.Close()
	p.mustSleep(t, d)
	if out, err := p.Command("db", "update", "asleep-"+family, "--auto-suspend", "10081", "--url", p.URL, "--token", p.Token); err == nil || !strings.Contains(out, "auto_suspend.idle_minutes") {
		t.Errorf("a value that is too large: %v: %s", err, out)
	}
	if out, err := p.Command("db", "update", "asleep-"+family, "--auto-suspend", "2", "--url", p.URL, "--token", p.Token); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	var now struct {
		AutoSuspend struct {
			IdleMinutes int `json:"idle_minutes"`
		} `json:"auto_suspend"`
	}
	if status, body := p.Call("GET", d.Path(), nil, &now); status != 200 || now.AutoSuspend.IdleMinutes != 2 {
		t.Errorf("set by the command: %d %s", status, body)
	}
	p.AwaitStatus(d, "active")
	p.mustSleep(t, d)
	p.mustForkByCommand(t, d, engine)
	if out, err := p.Command("db", "list", "--url", p.URL, "--token", p.Token); err != nil || !strings.Contains(out, "active (asleep)") {
		t.Errorf("%v: %s", err, out)
	}
	if family == "postgresql" {
		p.failsToWake(t, d, write)
	}
	if status, body := p.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Fatal(status, body)
	}
	p.Eventually("removed", p.Leftovers)
}

// mustForkByCommand makes a fork on the command line, which is to sleep at another time, and takes it away.
func (p *place) mustForkByCommand(t *testing.T, d harness.Database, engine string) {
	t.Helper()
	create := func(more ...string) (string, error) {
		return p.Command(append([]string{
			"db", "create", "fork-" + d.Engine, "--engine", engine, "--fork", fmt.Sprint(d.ID), "--auto-suspend", "7", "--json", "--url", p.URL, "--token", p.Token,
		}, more...)...)
	}
	if out, err := create("--at", "2020-01-31T18:04:05"); err == nil || !strings.Contains(out, "fork.restore_time") {
		t.Errorf("a fork of before all backups: %v: %s", err, out)
	}
	out, err := create()
	var fork struct {
		harness.Database
		Fork struct {
			Source int64 `json:"source"`
		} `json:"fork"`
		AutoSuspend struct {
			IdleMinutes int `json:"idle_minutes"`
		} `json:"auto_suspend"`
	}
	at := strings.Index(out, "{")
	if err != nil || at < 0 || json.Unmarshal([]byte(out[at:]), &fork) != nil || fork.Fork.Source != int64(d.ID) || fork.AutoSuspend.IdleMinutes != 7 {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := p.Command("db", "delete", fmt.Sprint(fork.ID), "--yes", "--url", p.URL, "--token", p.Token); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// failsToWake takes away what the server doesn't start without: who waits is told, and so is the owner; when
// it is there again, who connects is served.
func (p *place) failsToWake(t *testing.T, d harness.Database, write func(n, source int) error) {
	t.Helper()
	needed := filepath.Join(p.Primary(d).Folder, "data", "PG_VERSION")
	if err := os.Rename(needed, needed+"-away"); err != nil {
		t.Fatal(err)
	}
	if err := write(1000, 8); err == nil {
		t.Error("who woke a database that doesn't start was let in")
	}
	p.AwaitStatus(d, "failed")
	if err := os.Rename(needed+"-away", needed); err != nil {
		t.Fatal(err)
	}
	p.Eventually("served", func() error { return write(1001, 8) })
	seen := map[string]bool{}
	for _, e := range p.Events() {
		seen[e.Action] = true
	}
	for _, want := range []string{"database_sleep", "database_wake", "database_failed"} {
		if !seen[want] {
			t.Errorf("no event %s", want)
		}
	}
}

// mustSleep waits until a database sleeps and nothing of it runs. The API hears of a wake a little later.
func (p *place) mustSleep(t *testing.T, d harness.Database) {
	t.Helper()
	folder := fmt.Sprintf("/clusters/%d/", d.ID)
	p.Eventually("asleep", func() error {
		var now harness.Database
		if status, body := p.Call("GET", d.Path(), nil, &now); status != 200 || !now.Sleeping {
			return fmt.Errorf("%d %s", status, body)
		}
		for pid, line := range p.Processes() {
			if strings.Contains(line, folder) {
				return fmt.Errorf("process %d runs: %.200s", pid, line)
			}
		}
		return nil
	})
}
