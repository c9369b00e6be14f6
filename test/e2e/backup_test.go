package e2e

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/test/harness"
)

// TestBackups is the life of backups as a customer sees it, and what is made of them. A
// known text is looked for in every file of a database that is encrypted.
func TestBackups(t *testing.T) {
	t.Parallel()
	s := harness.New(t, ofPostgreSQL, ofMariaDB)
	t.Run("fork", func(t *testing.T) { fork(t, s, forkCase{engine: postgresql, size: 1}) })
	t.Run("fork of an older one, encrypted", func(t *testing.T) { fork(t, s, forkCase{engine: mariadb, encrypted: true, older: true, size: 1}) })
	t.Run("restore", func(t *testing.T) { backups(t, s, mariadb, 1) }) // demands that nothing is left
}

// TestBackupsThorough is TestBackups of three nodes.
func TestBackupsThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t)
	for _, engine := range enginesOr(postgresql) {
		t.Run(strings.ReplaceAll(engine, "/", "-"), func(t *testing.T) { backups(t, s, engine, 3) })
	}
}

// backups takes a database's backups through their life, until it is deleted, which leaves nothing.
func backups(t *testing.T, s *harness.Server, engine string, size int) {
	spec := harness.Small(fmt.Sprintf("backup-%s-%d", strings.SplitN(engine, "/", 2)[0], size), engine)
	spec["cluster_size"], spec["encrypted"] = size, size == 1 && strings.HasPrefix(engine, "mysql")
	d := s.CreateActive(spec)
	credentials := s.Credentials(d)
	db := s.MustConnect(d, credentials)
	exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY, v varchar(100))")
	for n := range 50 {
		exec1(t, db, fmt.Sprintf("INSERT INTO kept VALUES (%d, '%s')", n, strings.Repeat(fmt.Sprint(n), 20)))
	}
	if d.Encrypted {
		const marker = "a-text-that-must-not-be-readable-on-disk"
		exec1(t, db, "INSERT INTO kept VALUES (50, '"+marker+"')")
		if files := harness.FilesWith(t, s.Data, marker); len(files) > 0 {
			t.Errorf("the text stands readable in %v", files)
		}
	}
	sum := checksum(t, db)
	kept := s.Snapshot(d, "kept", "secondary")
	chosen := chosenFor(engine)
	chosen.change(t, s, d, chosen.config)

	db = s.MustConnect(d, credentials) // sessions of before the restart have ended
	exec1(t, db, "DROP TABLE kept")
	exec1(t, db, "CREATE TABLE other (n int)")
	s.Restore(d, kept)
	d = s.AwaitHealthy(d, size)
	chosen.inForce(t, s, d, credentials)
	db = s.MustConnect(d, credentials)
	if got := checksum(t, db); got != sum {
		t.Errorf("after the restore the rows are %s, were %s", got, sum)
	}
	if _, err := db.ExecContext(t.Context(), "SELECT * FROM other"); err == nil {
		t.Error("what came after the backup is still there")
	}
	exec1(t, db, "INSERT INTO kept VALUES (1000, 'after the restore')")
	s.Eventually("verified", func() error {
		if b, _ := s.FindBackup(d, "kept"); b.Verified == nil || b.Problem != nil {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
	damagedBackup(t, s, d, credentials)
	s.Eventually("deleted", func() error {
		if status, body := s.Call("DELETE", kept.Path(d), nil, nil); status != 200 && status != 404 {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	if status, body := s.Call("DELETE", d.Path(), nil, nil); status != 200 {
		t.Fatalf("delete: %d %s", status, body)
	}
	s.Eventually("nothing left in the archive", func() error {
		if left := s.Stored(t, "*"); len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return s.Leftovers()
	})
}

// damagedBackup: one flipped byte, and the restore leaves the data alone.
func damagedBackup(t *testing.T, s *harness.Server, d harness.Database, credentials harness.Credentials) {
	t.Helper()
	bad := s.Snapshot(d, "bad", "primary")
	flip(t, s, d, bad)
	if status, body := s.Call("POST", bad.Path(d)+"/restore", nil, nil); status != 200 {
		t.Fatalf("restore: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	db := s.MustConnect(d, credentials)
	if got := one(t, db, "SELECT v FROM kept WHERE n = 1000"); got != "after the restore" {
		t.Errorf("a damaged backup cost data: %q", got)
	}
	if b, _ := s.FindBackup(d, "bad"); b.Problem == nil {
		t.Errorf("nobody is told of the damage: %+v", b)
	}
}

// TestDamageIsNoticedThorough by itself, before anybody wants the backup.
func TestDamageIsNoticedThorough(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.WithConfig("backups:\n  verify: false"))
	d := s.CreateActive(harness.Small("rotten", "postgresql/15"))
	b := s.Snapshot(d, "rotten", "primary")
	flip(t, s, d, b)
	s.Kill()
	config, err := os.ReadFile(s.ConfigPath())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.ConfigPath(), bytes.Replace(config, []byte("verify: false"), []byte("verify: true"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.Eventually("the damage is noticed", func() error {
		if b, _ := s.FindBackup(d, "rotten"); b.Problem == nil || b.Verified != nil {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
}

// flip changes one bit in the middle of a backup's data.
func flip(t *testing.T, s *harness.Server, d harness.Database, b harness.Backup) {
	t.Helper()
	path := filepath.Join(s.Data, fmt.Sprintf("backups/clusters/%d/backups/%d/data.zst.age", d.ID, b.ID))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func checksum(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT n, v FROM kept ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all strings.Builder
	for rows.Next() {
		var n, v string
		if err := rows.Scan(&n, &v); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s=%s\n", n, v)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return all.String()
}
