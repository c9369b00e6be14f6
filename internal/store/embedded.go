package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/process"
)

// EmbeddedOptions are what an Embedded is made of.
type EmbeddedOptions struct {
	// Dir holds the data; RunDir the socket, on a short path.
	Dir, RunDir string
	// Bin is the folder with postgres and initdb; "" for the newest of the distribution's.
	Bin    string
	Logger *slog.Logger
}

// Embedded is a PostgreSQL of steward's own: set up, supervised, reached over a
// unix socket only. It is a process of its own session: it survives steward's
// death and is adopted by the next.
type Embedded struct {
	o        EmbeddedOptions
	bin      string
	uid, gid int

	mu      sync.Mutex
	process *process.Process
	stop    context.CancelFunc
	guard   sync.WaitGroup
}

const (
	storeUser     = "steward"
	storeDatabase = "steward"
	storePatience = 60 * time.Second
)

// storeSettings keep a small, quiet, durable server: steward writes little, and
// an idle one must cost next to nothing.
var storeSettings = []string{
	"listen_addresses=''", "shared_buffers=32MB", "max_connections=100", "max_wal_size=256MB", "max_wal_senders=0", "wal_level=minimal",
	"bgwriter_delay=10s", "wal_writer_delay=10s", "autovacuum_naptime=5min", "checkpoint_timeout=30min", "max_logical_replication_workers=0",
	"unix_socket_permissions=0700", "log_min_messages=warning", "log_checkpoints=off", "jit=off", "recovery_init_sync_method=syncfs",
}

// StartEmbedded sets the server up when there is none, adopts it when it runs,
// starts it otherwise, and keeps it running until Stop or Leave.
func StartEmbedded(ctx context.Context, o EmbeddedOptions) (*Embedded, error) {
	e := &Embedded{o: o}
	var err error
	if e.bin, err = findPostgreSQL(o.Bin); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		if e.uid, e.gid, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	if err := e.setUp(ctx); err != nil {
		return nil, fmt.Errorf("set up the store in %s: %w", o.Dir, err)
	}
	if err := e.ensureRunning(ctx); err != nil {
		return nil, fmt.Errorf("start the store: %w", err)
	}
	guarded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = cancel
	e.guard.Go(func() { e.watch(guarded) })
	return e, nil
}

// URL is how to connect.
func (e *Embedded) URL() string { return EmbeddedURL(e.o.Dir, e.o.RunDir) }

// EmbeddedURL is how to connect to a running embedded store.
func EmbeddedURL(dir, runDir string) string {
	password, _ := os.ReadFile(filepath.Join(dir, "password")) // missing: the connection says so
	query := url.Values{"host": {runDir}, "port": {"5432"}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(storeUser, strings.TrimSpace(string(password))), Path: "/" + storeDatabase, RawQuery: query.Encode()}
	return u.String()
}

// findPostgreSQL is the folder of the newest server programs.
func findPostgreSQL(bin string) (string, error) {
	if bin != "" {
		return bin, nil
	}
	newest, version := "", 0
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is well-formed
	for _, path := range found {
		if v, err := strconv.Atoi(strings.Split(path, "/")[4]); err == nil && v > version {
			newest, version = filepath.Dir(path), v
		}
	}
	if newest == "" {
		return "", errors.New("no PostgreSQL server is installed for the store: install the package postgresql-15, or name a database with --store")
	}
	return newest, nil
}

// unprivileged is a user that may run the server: PostgreSQL refuses root, and
// initdb wants a user with a name.
func unprivileged() (uid, gid int, err error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.Atoi(u.Uid)
		gid, errG := strconv.Atoi(u.Gid)
		return uid, gid, errors.Join(errU, errG)
	}
	return 0, 0, errors.New("there is neither a user postgres nor nobody to run the store as")
}

func (e *Embedded) data() string { return filepath.Join(e.o.Dir, "data") }

// setUp makes the data folder, all or nothing.
func (e *Embedded) setUp(ctx context.Context) error {
	if err := os.MkdirAll(e.o.Dir, 0o711); err != nil {
		return err
	}
	if err := os.MkdirAll(e.o.RunDir, 0o700); err != nil {
		return err
	}
	if err := e.own(e.o.RunDir); err != nil {
		return err
	}
	password := filepath.Join(e.o.Dir, "password")
	if _, err := os.Stat(e.data()); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh := e.data() + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	if err := e.own(fresh); err != nil {
		return err
	}
	secret, err := newPassword()
	if err != nil {
		return err
	}
	if err := process.WriteFile(password, []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	handed := filepath.Join(e.o.Dir, "password.initdb") // readable by the server's user
	if err := process.WriteFile(handed, []byte(secret+"\n"), 0o600); err != nil {
		return err
	}
	defer os.Remove(handed)
	if err := e.own(handed); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(e.bin, "initdb"), "--pgdata="+fresh, "--username="+storeUser, "--auth=scram-sha-256",
		"--pwfile="+handed, "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-instructions")
	cmd.Dir = "/"
	if e.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(e.uid), Gid: uint32(e.gid)}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return os.Rename(fresh, e.data())
}

func (e *Embedded) own(path string) error {
	if e.uid == 0 {
		return nil
	}
	return os.Chown(path, e.uid, e.gid)
}

func (e *Embedded) identity() process.Identity {
	return process.Identity{Mark: "store:" + e.o.Dir, Dir: e.data()}
}

// ensureRunning adopts or starts the server and waits until it answers.
func (e *Embedded) ensureRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	pidFile := filepath.Join(e.o.Dir, "pid")
	p, err := process.Adopt(pidFile, e.identity())
	if err != nil {
		return err
	}
	if p == nil {
		// What a dead postmaster left behind holds its shared memory.
		if err := process.KillAll(ctx, e.identity(), nil); err != nil {
			return err
		}
		if p, err = e.start(pidFile); err != nil {
			return err
		}
	}
	e.mu.Lock()
	e.process = p
	e.mu.Unlock()
	return e.awaitAnswer(ctx, p)
}

func (e *Embedded) start(pidFile string) (*process.Process, error) {
	argv := []string{filepath.Join(e.bin, "postgres"), "-D", e.data(), "-k", e.o.RunDir}
	for _, setting := range storeSettings {
		argv = append(argv, "-c", strings.ReplaceAll(setting, "''", ""))
	}
	return process.Start(process.Spec{
		Identity: e.identity(), Argv: argv, Env: []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}, WorkDir: e.data(),
		User: e.uid, Group: e.gid, Output: filepath.Join(e.o.Dir, "log"), PidFile: pidFile, OOMScore: -900,
	})
}

// awaitAnswer waits for a first answer and makes the database when it's missing.
func (e *Embedded) awaitAnswer(ctx context.Context, p *process.Process) error {
	config, err := pgx.ParseConfig(e.URL())
	if err != nil {
		return errors.New("the store's address can't be read") // the parser's error would show the password
	}
	config.Database = "postgres"
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := e.makeDatabase(ctx, config)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer in time, see %s: %w", filepath.Join(e.o.Dir, "log"), err)
		case <-p.Done():
			return fmt.Errorf("it ended while starting, see %s: %w", filepath.Join(e.o.Dir, "log"), err)
		case <-tick.C:
		}
	}
}

func (e *Embedded) makeDatabase(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", storeDatabase).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+storeDatabase)
	return err
}

// watch starts the server again whenever it ends.
func (e *Embedded) watch(ctx context.Context) {
	for pause := 50 * time.Millisecond; ; {
		e.mu.Lock()
		p := e.process
		e.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-p.Done():
		}
		if ctx.Err() != nil {
			return
		}
		e.o.Logger.WarnContext(ctx, "the store has ended; starting it again")
		if err := e.ensureRunning(ctx); err != nil {
			e.o.Logger.ErrorContext(ctx, "start the store again", "error", err, "again_in", pause)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, 10*time.Second)
			continue
		}
		pause = 50 * time.Millisecond
	}
}

// Leave ends the supervision and lets the server run on, for the next steward.
func (e *Embedded) Leave() {
	e.stop()
	e.guard.Wait()
}

// Stop ends supervision and server.
func (e *Embedded) Stop(ctx context.Context) error {
	e.Leave()
	return StopEmbedded(ctx, e.o.Dir)
}

// StopEmbedded ends the embedded store in dir, if it runs.
func StopEmbedded(ctx context.Context, dir string) error {
	e := &Embedded{o: EmbeddedOptions{Dir: dir}}
	p, err := process.Adopt(filepath.Join(dir, "pid"), e.identity())
	if err != nil || p == nil {
		return err
	}
	if err := p.Stop(ctx, syscall.SIGINT, 20*time.Second, nil); err != nil {
		return fmt.Errorf("stop the store: %w", err)
	}
	return nil
}
