package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"steward/internal/embeddedpg"
	"steward/internal/store"
	"steward/internal/testdir"
)

// prepared is the database in a prepared store, which is migrated: new ones are copied from it.
const prepared = "steward"

// shared is the test process's one server. Tests run in parallel and none of
// them owns it, so that it can't be a value of theirs.
var shared server

type server struct {
	mu sync.Mutex
	// url is of a database for administration, migrated the name of one that
	// new stores are copied from.
	url, migrated string
	// pool is of connections for administration, which hundreds of tests share: to make one
	// costs as much as to make a database.
	pool *pgxpool.Pool
	end  func()

	// spare are migrated databases that no test has now, and empty is what empties them.
	spare    []*reused
	emptying sync.Once
	empty    emptied
	emptyErr error
}

// start starts the server for the first test that needs it.
func (s *server) start(t testing.TB) *server {
	t.Helper()
	testdir.NeedsServers(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.url != "" {
		return s
	}
	url, end := os.Getenv("STEWARD_TEST_DATABASE"), func() {}
	if url == "" {
		var err error
		if url, end, err = startServer(); err != nil {
			t.Fatalf("start PostgreSQL for tests: %v", err)
		}
	}
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		end()
		t.Fatalf("connect to PostgreSQL for tests: %v", err)
	}
	s.url, s.pool, s.migrated = url, pool, prepared
	outside := os.Getenv("STEWARD_TEST_DATABASE") != ""
	if outside {
		s.migrated = "migrated_" + random()
	}
	s.end = func() {
		for _, d := range s.spare {
			d.conn.Close(context.Background())
			if outside {
				_ = s.drop(d.name)
			}
		}
		if outside {
			_ = s.administer("DROP DATABASE IF EXISTS " + s.migrated) // an outside server that is gone needs no cleaning
		}
		pool.Close()
		end()
	}
	if !outside {
		return s
	}
	if err := s.migrate(); err != nil {
		s.end()
		s.url, s.end = "", nil
		t.Fatalf("migrate a store for tests: %v", err)
	}
	return s
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
	}
}

// migrate makes a database with the schema of today.
func (s *server) migrate() error {
	if err := s.administer("CREATE DATABASE " + s.migrated); err != nil {
		return err
	}
	migrated, err := store.Open(context.Background(), store.Options{URL: databaseURL(s.url, s.migrated)})
	if err != nil {
		return err
	}
	migrated.Close()
	return nil
}

func (s *server) administer(sql string) error {
	_, err := s.pool.Exec(context.Background(), sql)
	return err
}

// startServer runs an embedded store that a crash of the machine would ruin,
// which for tests is just right.
func startServer() (url string, end func(), err error) {
	dir, err := testdir.Make("steward-pgtest-")
	if err != nil {
		return "", nil, err
	}
	stop, err := guard(dir)
	if err != nil {
		os.RemoveAll(dir)
		return "", nil, err
	}
	if err := PreparedStore(filepath.Join(dir, "store")); err != nil {
		stop()
		return "", nil, err
	}
	if err := Trust(filepath.Join(dir, "store")); err != nil {
		stop()
		return "", nil, err
	}
	e, err := embeddedpg.Start(context.Background(), options(dir))
	if err != nil {
		stop()
		return "", nil, err
	}
	return databaseURL(e.URL(), "postgres"), func() {
		if err := e.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: end of PostgreSQL:", err)
		}
		stop()
	}, nil
}

// Trust has a prepared store's server ask nobody for a password: thousands of short
// connections would spend more time on proving theirs, with the race detector, than on
// their work.
func Trust(store string) error {
	return os.WriteFile(filepath.Join(store, "data", "pg_hba.conf"), []byte("local all all trust\n"), 0o600)
}

func options(dir string) embeddedpg.Options {
	return embeddedpg.Options{
		Dir: filepath.Join(dir, "store"), RunDir: filepath.Join(dir, "run"), Logger: slog.New(slog.DiscardHandler),
		// Vacuuming would go round the hundreds of databases that tests make.
		Settings: []string{"fsync=off", "full_page_writes=off", "autovacuum=off"},
	}
}

// PreparedStore makes dir the folder of a store that is set up and has served nobody: to
// copy one takes a tenth of the time of making one. It is made anew when PostgreSQL or
// the code that sets a store up changes.
func PreparedStore(dir string) error {
	var code []string
	for _, pattern := range []string{"go.mod", "internal/embeddedpg/*.go", "internal/scram/*.go", "internal/store/*.go", "internal/store/migrations/*"} {
		found, err := filepath.Glob(filepath.Join(SourceFolder(), filepath.FromSlash(pattern)))
		if err != nil {
			return err
		}
		code = append(code, found...)
	}
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return err
	}
	sum := sha256.New()
	for _, path := range append(code, installed...) {
		digest, err := testdir.Digest(path)
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, filepath.Base(path), digest)
	}
	return testdir.Prepared(context.Background(), dir, "store", hex.EncodeToString(sum.Sum(nil)[:8]), makeStore)
}

// SourceFolder is the clone's: tests run in their package's folder.
func SourceFolder() string {
	for dir, err := os.Getwd(); err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	return ""
}

func makeStore(dir string) error {
	run, err := testdir.Make("steward-pgtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(run)
	o := options(run)
	o.Dir = dir
	e, err := embeddedpg.Start(context.Background(), o)
	if err != nil {
		return err
	}
	migrated, err := store.Open(context.Background(), store.Options{URL: e.URL()})
	if err == nil {
		migrated.Close()
	}
	return errors.Join(err, e.Stop(context.Background()))
}

// guardian waits until the test process closes its end of the pipe or dies,
// then ends the server and removes its folder. The test process may have left the
// server and no longer reap it: one that is a zombie has ended.
const guardian = `read -r _
pid=$(head -n 1 "$1/store/data/postmaster.pid" 2>/dev/null) && kill -QUIT "$pid" && while grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" 2>/dev/null; do sleep 0.02; done
rm -rf "$1"`

// guard starts a guardian of its own session, out of reach of what is typed at
// the tests' terminal; stop makes it act and waits for it.
func guard(dir string) (stop func(), err error) {
	cmd := exec.Command("/bin/sh", "-c", guardian, "sh", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() { release(hold, cmd) }, nil
}

func release(hold io.Closer, cmd *exec.Cmd) {
	if err := errors.Join(hold.Close(), cmd.Wait()); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest: end of PostgreSQL:", err)
	}
}
