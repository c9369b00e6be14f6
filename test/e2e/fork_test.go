package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/test/gopher"
	"steward/test/harness"
)

// forkOf is what the API says of where a database comes from.
func forkOf(t *testing.T, s *harness.Server, d harness.Database) (source int64, moment, oldest string) {
	t.Helper()
	var v struct {
		Fork *struct {
			Source     int64  `json:"source"`
			RestoredTo string `json:"restored_to"`
		} `json:"fork"`
		Oldest string `json:"oldest_restore_time"`
	}
	_, body := s.Call("GET", d.Path(), nil, &v)
	if v.Fork == nil {
		if !strings.Contains(body, `"fork":null`) {
			t.Errorf("no fork in %s", body)
		}
		return 0, "", v.Oldest
	}
	return v.Fork.Source, v.Fork.RestoredTo, v.Oldest
}

// forkCase is a fork to be made.
type forkCase struct {
	engine    string
	encrypted bool
	// older forks an older backup than the newest.
	older bool
	// size is how many nodes the fork has.
	size int
}

// TestForkThorough makes forks of three nodes; TestBackups has those of one.
func TestForkThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	t.Run("encrypted", func(t *testing.T) { fork(t, s, forkCase{engine: mariadb, encrypted: true, older: true, size: 3}) })
	t.Run("linodego", func(t *testing.T) { gopher.Fork(t, s, "local") })
	if all() {
		t.Run("newest", func(t *testing.T) { fork(t, s, forkCase{engine: mariadb, size: 3}) })
		t.Run("older", func(t *testing.T) { fork(t, s, forkCase{engine: postgresql, older: true, size: 3}) })
	}
}

// fork makes a new database of another one's backups: its are the data, and nothing else
// of the source's.
func fork(t *testing.T, s *harness.Server, forked forkCase) {
	engine, encrypted := forked.engine, forked.encrypted
	name := fmt.Sprintf("%s-%t", strings.NewReplacer("/", "-", ".", "-").Replace(engine), encrypted)
	chosen := chosenFor(engine)
	spec := harness.Small("src-"+name, engine)
	spec["encrypted"], spec["engine_config"] = encrypted, chosen.config
	d := s.CreateActive(spec)
	c := s.Credentials(d)
	chosen.inForce(t, s, d, c)
	db := s.MustConnect(d, c)
	exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY)")
	exec1(t, db, "INSERT INTO kept VALUES (1)")
	spec = harness.Small("fork-"+name, engine)
	spec["encrypted"], spec["fork"] = encrypted, map[string]any{"source": d.ID}
	if status, body := s.Call("POST", strings.TrimSuffix(d.Path(), fmt.Sprintf("/%d", d.ID)), spec, nil); status != 400 || !strings.Contains(body, "fork.source") {
		t.Errorf("a fork without a backup: %d %s", status, body)
	}
	first := s.Snapshot(d, "first", "primary")
	time.Sleep(time.Second) // times are shown in seconds
	exec1(t, db, "INSERT INTO kept VALUES (2)")
	second := s.Snapshot(d, "second", "primary")
	exec1(t, db, "INSERT INTO kept VALUES (3)")
	if source, _, oldest := forkOf(t, s, d); source != 0 || oldest != first.Created {
		t.Errorf("the source: fork of %d, oldest %s, want %s", source, oldest, first.Created)
	}
	moment, rows := second.Created, "2"
	if forked.older {
		moment, rows = first.Created, "1"
		spec["fork"] = map[string]any{"source": d.ID, "restore_time": moment}
	}
	spec["cluster_size"] = forked.size
	made := s.Create(spec)
	if made.Status != "provisioning" {
		t.Errorf("a new fork is %s", made.Status)
	}
	made = s.AwaitStatus(made, "active")
	ofItsOwn(t, s, d, c, made, moment, rows)
	made = s.AwaitHealthy(made, forked.size)
	chosen.inForce(t, s, made, s.Credentials(made)) // as the source's settings are
	if rows = one(t, s.MustConnect(d, c), "SELECT count(*) FROM kept"); rows != "3" {
		t.Errorf("the source has %s rows", rows)
	}
	spec["label"], spec["fork"] = "no-"+name, map[string]any{"source": d.ID, "restore_time": "2020-01-01T00:00:00"}
	if status, body := s.Call("POST", strings.TrimSuffix(d.Path(), fmt.Sprintf("/%d", d.ID)), spec, nil); status != 400 || !strings.Contains(body, "fork.restore_time") || !strings.Contains(body, first.Created) {
		t.Errorf("a fork of a time long ago: %d %s", status, body)
	}
	for _, gone := range []harness.Database{made, d} {
		if status, body := s.Call("DELETE", gone.Path(), nil, nil); status != 200 {
			t.Errorf("delete: %d %s", status, body)
		}
	}
}

// ofItsOwn demands of a fork the rows, a password, a port and a CA of its own,
// and that it takes writes, a backup and a fork of itself.
func ofItsOwn(t *testing.T, s *harness.Server, d harness.Database, c harness.Credentials, f harness.Database, moment, rows string) {
	t.Helper()
	if source, at, _ := forkOf(t, s, f); source != d.ID || at != moment {
		t.Errorf("fork of %d at %s, want %d at %s", source, at, d.ID, moment)
	}
	own := s.Credentials(f)
	if own.Password == c.Password || string(own.CA) == string(c.CA) || f.Port == d.Port {
		t.Error("the fork shares a password, a CA or a port with its source")
	}
	db := s.MustConnect(f, own)
	if got := one(t, db, "SELECT count(*) FROM kept"); got != rows {
		t.Errorf("the fork has %s rows, want %s", got, rows)
	}
	exec1(t, db, "INSERT INTO kept VALUES (100)")
	old := own
	old.Password = c.Password
	if db, err := harness.Connect(timeout(t, 10*time.Second), f, old, ""); err == nil {
		db.Close()
		t.Error("the source's password works in the fork")
	}
	s.Snapshot(f, "own", "primary")
}
