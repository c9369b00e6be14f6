package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// checkedUpgrade is what a try of a version found.
type checkedUpgrade struct {
	Version      string   `json:"version"`
	Status       string   `json:"status"`
	PauseSeconds *int     `json:"pause_seconds"`
	Reasons      []string `json:"reasons"`
}

// TestUpgradeThorough gives a database of PostgreSQL pools, moves it to a newer version by the command line, which has tried it on a copy before,
// and brings back what was before by the API. A pool leads to the one and to the other, and clients of the pool see no error meanwhile.
func TestUpgradeThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.OfBuilds("postgresql-"))
	d := s.CreateActive(harness.Small("upgraded", "postgresql/15"))
	exec1(t, s.MustConnect(d, s.Credentials(d)), "CREATE TABLE kept AS SELECT n FROM generate_series(1, 1000) n")
	d = pools(t, s, d)
	for version, why := range map[string]string{
		"14": "newer version that its data can be moved to: 17", "99": "newer version that its data can be moved to: 17", "8.4": "17", "": "17",
	} {
		for path, method := range map[string]string{"": "PUT", "/upgrade-check": "POST"} {
			if status, body := s.Call(method, d.Path()+path, map[string]any{"version": version}, nil); status != http.StatusBadRequest || !strings.Contains(body, `"field":"version"`) ||
				version != "" && !strings.Contains(body, why) {
				t.Errorf("%s%s version %q: %d %s", method, path, version, status, body)
			}
		}
	}
	if status, body := s.Call("PUT", d.Path(), map[string]any{"version": "17", "type": "g6-nanode-1", "label": "x"}, nil); status != http.StatusBadRequest ||
		!strings.Contains(body, "one after the other") || !strings.Contains(body, `"field":"label"`) {
		t.Errorf("with other changes: %d %s", status, body)
	}
	if status, body := s.Call("GET", d.Path()+"/upgrade-check", nil, nil); status != http.StatusOK || !strings.Contains(body, `"status":"none"`) {
		t.Errorf("a check before there was one: %d %s", status, body)
	}
	if status, body := s.Call("POST", d.Path()+"/upgrade-check", map[string]any{"version": "17"}, nil); status != http.StatusBadRequest || !strings.Contains(body, "no backup") {
		t.Errorf("a check without a backup: %d %s", status, body)
	}
	db := s.MustConnect(d, s.Credentials(d))
	exec1(t, db, "CREATE TABLE odd (calls regproc)")
	s.Snapshot(d, "odd", "primary")
	if out, err := s.Command("db", "upgrade-check", "upgraded", "--version", "17"); err == nil || !strings.Contains(out, `"calls" of public.odd`) {
		t.Errorf("with a column that can't be moved: %v\n%s", err, out)
	}
	exec1(t, db, "DROP TABLE odd")
	s.Snapshot(d, "even", "primary")
	if out, err := s.Command("db", "upgrade-check", "upgraded", "--version", "17"); err != nil || !strings.Contains(out, "can be moved to version 17") {
		t.Errorf("check: %v\n%s", err, out)
	}
	var found checkedUpgrade
	if status, body := s.Call("GET", d.Path()+"/upgrade-check", nil, &found); status != http.StatusOK || found.Status != "passed" || found.PauseSeconds == nil || found.Version != "17" || len(found.Reasons) > 0 {
		t.Fatalf("the check: %d %s", status, body)
	}
	busy := useBusily(t, d, s.PoolPort(d), s.Credentials(d))
	busy.progress()
	if out, err := s.Command("db", "upgrade", "upgraded", "--version", "17", "--yes"); err != nil || !strings.Contains(out, "upgraded runs 17.") {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	busy.progress()
	busy.end()
	if d = s.AwaitStatus(d, "active"); d.Version != "17" {
		t.Errorf("it is of version %s", d.Version)
	}
	must := func(want string) {
		t.Helper()
		const ask = "SELECT count(*) || ' rows of ' || current_setting('server_version_num')::int / 10000 FROM kept"
		c := s.Credentials(d)
		if got := one(t, s.MustConnect(d, c), ask); got != want {
			t.Errorf("it has %s, want %s", got, want)
		}
		s.Eventually("the pool leads to "+want, func() error {
			ctx := timeout(t, 10*time.Second)
			conn, err := harness.ConnectPool(ctx, d, s.PoolPort(d), c, "app")
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			var got string
			if err := conn.QueryRow(ctx, ask).Scan(&got); err != nil || got != want {
				return fmt.Errorf("it leads to %s: %w", got, err)
			}
			if said := conn.PgConn().ParameterStatus("server_version"); !strings.HasSuffix(want, " of "+said[:2]) {
				return fmt.Errorf("it says that it is %s", said)
			}
			return nil
		})
	}
	must("1000 rows of 17")
	if out, err := s.Command("db", "extension", "create", "upgraded", "vector"); err != nil {
		t.Errorf("pgvector, which the newer version's packages have: %v\n%s", err, out)
	} else if got := one(t, s.MustConnect(d, s.Credentials(d)), "SELECT ('[1,2]'::vector.vector OPERATOR(vector.<->) '[1,4]')::text"); got != "2" {
		t.Errorf("the distance is %s", got)
	}
	exec1(t, s.MustConnect(d, s.Credentials(d)), "INSERT INTO kept VALUES (0)")
	if status, body := s.Call("POST", d.Path()+"/restore/undo", nil, nil); status != http.StatusOK {
		t.Fatalf("undo: %d %s", status, body)
	}
	if d = s.AwaitStatus(d, "active"); d.Version != "15" {
		t.Errorf("undone, it is of version %s", d.Version)
	}
	must("1000 rows of 15")
	b, there := s.FindBackup(d, "before17")
	if !there || b.State != "complete" {
		t.Errorf("the backup from before: %+v", b)
	}
	lastBackup(t, s, d)
}

// lastBackup deletes a database after a last backup, and makes another one of that.
func lastBackup(t *testing.T, s *harness.Server, d harness.Database) {
	t.Helper()
	if out, err := s.Command("db", "delete", d.Label, "--yes", "--final-backup"); err != nil {
		t.Fatalf("delete: %v\n%s", err, out)
	}
	s.Eventually("a last backup", func() error {
		out, err := s.Command("backup", "finals")
		if err == nil && !strings.Contains(out, d.Label) {
			err = errors.New(out)
		}
		return err
	})
	spec := harness.Small("after", "postgresql/15")
	spec["fork"] = map[string]any{"source": d.ID}
	made := s.CreateActive(spec)
	if got := one(t, s.MustConnect(made, s.Credentials(made)), "SELECT count(*)::text FROM kept"); got != "1000" {
		t.Errorf("what was made of it has %s rows", got)
	}
	if out, err := s.Command("backup", "drop-final", fmt.Sprint(d.ID)); err != nil {
		t.Errorf("drop: %v\n%s", err, out)
	}
	if out, err := s.Command("backup", "finals"); err != nil || strings.Contains(out, d.Label) {
		t.Errorf("dropped: %v\n%s", err, out)
	}
	if status, body := s.Call("DELETE", made.Path(), nil, nil); status != http.StatusOK {
		t.Fatal(body)
	}
	noPoolIsLeft(t, s)
}

// TestUpgradeOfThreeNodesThorough: clients of a pool before three nodes wait while these are moved to a newer version, and see no error.
func TestUpgradeOfThreeNodesThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.OfBuilds("postgresql-"))
	spec := harness.Small("three", "postgresql/15")
	spec["cluster_size"] = 3
	d := s.CreateActive(spec)
	if status, body := s.Call("POST", d.Path()+"/connection-pools", map[string]any{"label": "app", "database": "defaultdb", "mode": "transaction", "size": 4}, nil); status != http.StatusOK {
		t.Fatal(body)
	}
	d = s.AwaitStatus(d, "active")
	b := useBusily(t, d, s.PoolPort(d), s.Credentials(d))
	b.progress()
	if status, body := s.Call("PUT", d.Path(), map[string]any{"version": "17"}, nil); status != http.StatusOK {
		t.Fatal(body)
	}
	if d = s.AwaitStatus(d, "active"); d.Version != "17" {
		t.Errorf("it is of version %s", d.Version)
	}
	b.progress()
	b.end()
	s.AwaitHealthy(d, 3)
}
