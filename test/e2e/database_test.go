package e2e

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/test/harness"
)

// TestLife takes a database of each engine through everything a customer does.
func TestLife(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.Fresh(), harness.WithConfig("pool: {size: 1}"))
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			d := s.Create(harness.Small("life-"+strings.NewReplacer("/", "-", ".", "-").Replace(engine), engine))
			if d.Status != "provisioning" || d.Hosts.Primary != "" {
				t.Errorf("a new database is %q with hosts %v, want provisioning without hosts", d.Status, d.Hosts)
			}
			if status, body := s.Call("GET", d.Path()+"/credentials", nil, nil); status == http.StatusBadRequest && !strings.Contains(body, "provisioning") {
				t.Errorf("credentials while provisioning: %s, want a sentence naming the status", body)
			}
			d = s.AwaitStatus(d, "active")
			c := s.Credentials(d)
			db := s.MustConnect(d, c)
			exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY, word varchar(20))")
			exec1(t, db, "INSERT INTO kept VALUES (1, 'first')")
			t.Run("command line client", func(t *testing.T) { queryByClient(t, d, c) })
			t.Run("inside", func(t *testing.T) { inside(t, s, d, c) })
			t.Run("label", func(t *testing.T) { rename(t, s, d) })
			t.Run("resize", func(t *testing.T) { resize(t, s, d, db) })
			t.Run("reset", func(t *testing.T) { reset(t, s, d, c) })
			t.Run("patch", func(t *testing.T) { patch(t, s, d) })
			c = s.Credentials(d)
			again := s.MustConnect(d, c)
			if word := one(t, again, "SELECT word FROM kept WHERE n = 1"); word != "first" {
				t.Errorf("after all of it the row says %q, want first", word)
			}
			t.Run("delete", func(t *testing.T) { remove(t, s, d) })
		})
	}
}

func exec1(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func one(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var value string
	if err := db.QueryRowContext(t.Context(), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

// queryByClient uses psql and mysql as a customer would, with the CA verified.
func queryByClient(t *testing.T, d harness.Database, c harness.Credentials) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, c.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	var cmd *exec.Cmd
	if d.Engine == "mysql" {
		cmd = exec.CommandContext(t.Context(), "mariadb", "-h", d.Hosts.Primary, "-P", fmt.Sprint(d.Port), "-u", c.Username,
			"--ssl-ca="+ca, "--ssl-verify-server-cert", "-N", "-e", "SELECT word FROM kept", "defaultdb")
		cmd.Env = append(os.Environ(), "MYSQL_PWD="+c.Password)
	} else {
		cmd = exec.CommandContext(t.Context(), "psql", "-Atc", "SELECT word FROM kept", fmt.Sprintf(
			"host=%s port=%d user=%s dbname=defaultdb sslmode=verify-full sslrootcert=%s", d.Hosts.Primary, d.Port, c.Username, ca))
		cmd.Env = append(os.Environ(), "PGPASSWORD="+c.Password)
	}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "first" {
		t.Errorf("client printed %q, %v; want first", out, err)
	}
}

func rename(t *testing.T, s *harness.Server, d harness.Database) {
	var renamed harness.Database
	status, body := s.Call("PUT", d.Path(), map[string]any{"label": d.Label + "-b"}, &renamed)
	if status != 200 || renamed.Label != d.Label+"-b" || renamed.Status != "active" {
		t.Errorf("rename: %d %s, want the new label and active", status, body)
	}
}

func resize(t *testing.T, s *harness.Server, d harness.Database, db *sql.DB) {
	chosen := chosenFor(d.Engine)
	if said := chosen.change(t, s, d, chosen.config); !strings.HasPrefix(said, "The server was restarted for ") {
		t.Errorf("the event says %q", said)
	}
	var bigger harness.Database
	status, body := s.Call("PUT", d.Path(), map[string]any{"type": "g6-standard-1"}, &bigger)
	if status != 200 || bigger.Status != "updating" || bigger.Type != "g6-standard-1" {
		t.Fatalf("resize: %d %s, want updating with the new type", status, body)
	}
	s.AwaitStatus(d, "active")
	c := s.Credentials(d)
	chosen.inForce(t, s, d, c)
	after := s.MustConnect(d, c)
	query := "SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'"
	if d.Engine == "mysql" {
		query = "SELECT @@innodb_buffer_pool_size"
	}
	var size int64
	if err := after.QueryRowContext(t.Context(), query).Scan(&size); err != nil || size < 400<<20 {
		t.Errorf("after the resize to 2 GB the server caches %d bytes (%v), want at least 400 MiB", size, err)
	}
}

func reset(t *testing.T, s *harness.Server, d harness.Database, old harness.Credentials) {
	if status, body := s.Call("POST", d.Path()+"/credentials/reset", nil, nil); status != 200 || strings.TrimSpace(body) != "{}" {
		t.Fatalf("reset: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	if db, err := harness.Connect(timeout(t, 10*time.Second), d, old, ""); err == nil {
		db.Close()
		t.Error("the old password still works")
	}
	if fresh := s.Credentials(d); fresh.Password == old.Password {
		t.Error("the password is the same after the reset")
	}
}

func patch(t *testing.T, s *harness.Server, d harness.Database) {
	if status, body := s.Call("POST", d.Path()+"/patch", nil, nil); status != 200 || strings.TrimSpace(body) != "{}" {
		t.Fatalf("patch: %d %s", status, body)
	}
	// It is seen, also when there is nothing to do.
	if _, body := s.Call("GET", d.Path(), nil, nil); !strings.Contains(body, `"status":"updating"`) {
		t.Errorf("after a patch was answered: %s", body)
	}
	s.AwaitStatus(d, "active")
}

func remove(t *testing.T, s *harness.Server, d harness.Database) {
	if status, body := s.Call("DELETE", d.Path(), nil, nil); status != 200 || strings.TrimSpace(body) != "{}" {
		t.Fatalf("delete: %d %s", status, body)
	}
	if status, _ := s.Call("GET", d.Path(), nil, nil); status != 404 {
		t.Errorf("a deleted database answers %d, want 404 at once", status)
	}
	s.Eventually("removed", func() error { return s.Leftovers() })
}
