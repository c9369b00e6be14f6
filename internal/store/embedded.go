package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
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
	// Bin is the folder with postgres and initdb; "" for the distribution's:
	// the newest at first, afterwards the one the data was made with.
	Bin string
	// Settings are further ones of postgresql.conf, "name=value".
	Settings []string
	Logger   *slog.Logger
}

// Embedded is a PostgreSQL of steward's own: set up, supervised, reached over a
// unix socket only. It is a process of its own session: it survives steward's
// death and is adopted by the next.
type Embedded struct {
	o   EmbeddedOptions
	bin string
	// owner is whom the server runs as; 0 for the caller's own user.
	owner int

	mu      sync.Mutex
	process *process.Process
	stop    context.CancelFunc
	guard   sync.WaitGroup
}

const (
	storeUser     = "steward"
	storeDatabase = "steward"
	// storePatience covers crash recovery on a slow disk.
	storePatience = 60 * time.Second
	// logMost is how long the server's log may get before it is rotated.
	logMost, logKeep, logEvery = 1 << 20, 2, time.Hour
)

// StartEmbedded sets the server up when there is none, adopts it when it runs,
// starts it otherwise, and keeps it running until Stop or Leave.
func StartEmbedded(ctx context.Context, o EmbeddedOptions) (*Embedded, error) {
	e := &Embedded{o: o}
	var err error
	if e.bin, err = findPostgreSQL(o.Bin, e.data()); err != nil {
		return nil, err
	}
	if e.owner, err = storeOwner(); err != nil {
		return nil, err
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
	password, _ := os.ReadFile(passwordFile(dir)) // missing: the connection says so
	query := url.Values{"host": {runDir}, "port": {"5432"}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(storeUser, strings.TrimSpace(string(password))), Path: "/" + storeDatabase, RawQuery: query.Encode()}
	return u.String()
}

func passwordFile(dir string) string { return filepath.Join(dir, "password") }

func (e *Embedded) data() string    { return filepath.Join(e.o.Dir, "data") }
func (e *Embedded) pidFile() string { return filepath.Join(e.o.Dir, "pid") }
func (e *Embedded) logFile() string { return filepath.Join(e.o.Dir, "log") }

func (e *Embedded) identity() process.Identity {
	return process.Identity{Mark: "store:" + e.o.Dir, Dir: e.data()}
}

// ensureRunning adopts or starts the server and waits until it answers.
func (e *Embedded) ensureRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	p, err := process.Adopt(e.pidFile(), e.identity())
	if err != nil {
		return err
	}
	if p != nil {
		e.set(p)
		if err := e.awaitAnswer(ctx, p); err == nil || p.Running() {
			return err
		}
		// It was dying already.
	}
	if p, err = e.start(ctx); err != nil {
		return err
	}
	e.set(p)
	return e.awaitAnswer(ctx, p)
}

func (e *Embedded) set(p *process.Process) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.process = p
}

func (e *Embedded) start(ctx context.Context) (*process.Process, error) {
	// What a dead postmaster left behind holds its shared memory.
	if err := process.KillAll(ctx, e.identity(), nil); err != nil {
		return nil, err
	}
	if err := e.prepare(); err != nil {
		return nil, err
	}
	argv := []string{filepath.Join(e.bin, "postgres"), "-D", e.data(), "-k", e.o.RunDir}
	for _, setting := range append(settingsFor(e.data()), e.o.Settings...) {
		argv = append(argv, "-c", setting)
	}
	return process.Start(process.Spec{
		Identity: e.identity(), Argv: argv, Env: []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}, WorkDir: e.data(),
		User: e.owner, Group: e.owner, Output: e.logFile(), PidFile: e.pidFile(), OOMScore: -900,
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
		err := errNotReady
		if e.ready() {
			if err = makeDatabase(ctx, config); err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer in time: %w (%s)", err, e.lastWords())
		case <-p.Done():
			return fmt.Errorf("it ended while starting: %s", e.lastWords())
		case <-tick.C:
		}
	}
}

var errNotReady = errors.New("it doesn't call itself ready")

// ready tells whether the server calls itself so, in the last line of its lock
// file: connecting to ask would hinder its recovery.
func (e *Embedded) ready() bool {
	text, err := os.ReadFile(filepath.Join(e.data(), "postmaster.pid"))
	return err == nil && strings.HasSuffix(strings.TrimSpace(string(text)), "\nready")
}

// lastWords are the last line of the server's log, and where to find the rest.
func (e *Embedded) lastWords() string {
	text, _ := os.ReadFile(e.logFile()) // a missing log has no last line
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return fmt.Sprintf("%s; see %s", lines[len(lines)-1], e.logFile())
}

func makeDatabase(ctx context.Context, config *pgx.ConnConfig) error {
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
	rotate := time.NewTicker(logEvery)
	defer rotate.Stop()
	for {
		e.mu.Lock()
		p := e.process
		e.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-rotate.C:
			if err := process.Rotate(e.logFile(), logMost, logKeep); err != nil {
				e.o.Logger.WarnContext(ctx, "rotate the store's log", "error", err)
			}
		case <-p.Done():
			e.revive(ctx)
		}
	}
}

// revive tries to start the server until it runs or ctx ends.
func (e *Embedded) revive(ctx context.Context) {
	e.o.Logger.WarnContext(ctx, "the store has ended; starting it again")
	for pause := 50 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 10*time.Second) {
		err := e.ensureRunning(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		e.o.Logger.ErrorContext(ctx, "start the store again", "error", err, "again_in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
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
	p, err := process.Adopt(e.pidFile(), e.identity())
	if err != nil || p == nil {
		return err
	}
	if err := p.Stop(ctx, syscall.SIGINT, 20*time.Second, nil); err != nil {
		return fmt.Errorf("stop the store: %w", err)
	}
	return nil
}
