package embeddedpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/process"
)

// Options are what a Server is made of.
type Options struct {
	// Dir holds the data; RunDir the socket, on a short path.
	Dir, RunDir string
	// Bin is the folder with postgres and initdb; "" for the distribution's:
	// the newest at first, afterwards the one the data was made with.
	Bin string
	// Settings are further ones of postgresql.conf, "name=value".
	Settings []string
	Logger   *slog.Logger
}

// Server is a PostgreSQL of steward's own: set up, supervised, reached over a
// unix socket only. It is a process of its own session: it survives steward's
// death and is adopted by the next.
type Server struct {
	o   Options
	bin string
	// owner is whom the server runs as; 0 for the caller's own user.
	owner int

	mu      sync.Mutex
	process *process.Process
	stop    context.CancelFunc
	guard   sync.WaitGroup
}

const (
	role     = "steward"
	database = "steward"
	// startTime covers crash recovery on a slow disk.
	startTime = 60 * time.Second
	// logMost is how long the server's log may get before it is rotated.
	logMost, logKeep, logEvery = 1 << 20, 2, time.Hour
)

// Start sets the server up when there is none, adopts it when it runs,
// starts it otherwise, and keeps it running until Stop or Leave.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{o: o}
	var err error
	if s.bin, err = findPostgreSQL(o.Bin, s.data()); err != nil {
		return nil, err
	}
	if s.owner, err = owner(); err != nil {
		return nil, err
	}
	if err := s.setUp(ctx); err != nil {
		return nil, fmt.Errorf("set up the store in %s: %w", o.Dir, err)
	}
	if err := s.ensureRunning(ctx); err != nil {
		if s.process != nil {
			s.process.Leave()
		}
		return nil, fmt.Errorf("start the store: %w", err)
	}
	guarded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = cancel
	s.guard.Go(func() { s.supervisor().Run(guarded) })
	return s, nil
}

// URL is how to connect.
func (s *Server) URL() string { return URL(s.o.Dir, s.o.RunDir) }

// URL is how to connect to a running embedded store.
func URL(dir, runDir string) string {
	password, _ := os.ReadFile(passwordFile(dir)) // missing: the connection says so
	query := url.Values{"host": {runDir}, "port": {"5432"}}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, strings.TrimSpace(string(password))), Path: "/" + database, RawQuery: query.Encode()}
	return u.String()
}

func passwordFile(dir string) string { return filepath.Join(dir, "password") }

func (s *Server) data() string    { return filepath.Join(s.o.Dir, "data") }
func (s *Server) pidFile() string { return filepath.Join(s.o.Dir, "pid") }
func (s *Server) logFile() string { return filepath.Join(s.o.Dir, "log") }

func (s *Server) identity() process.Identity {
	return process.Identity{Mark: "store:" + s.o.Dir, Dir: s.data()}
}

// ensureRunning adopts or starts the server and waits until it answers.
func (s *Server) ensureRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	p, err := process.Adopt(s.pidFile(), s.identity())
	if err != nil {
		return err
	}
	if p != nil {
		s.set(p)
		if err := s.awaitAnswer(ctx, p); err == nil || p.Running() {
			return err
		}
		// It was dying already.
	}
	if p, err = s.start(ctx); err != nil {
		return err
	}
	s.set(p)
	return s.awaitAnswer(ctx, p)
}

func (s *Server) set(p *process.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
}

func (s *Server) start(ctx context.Context) (*process.Process, error) {
	// What a dead postmaster left behind holds its shared memory.
	if err := process.KillAll(ctx, s.identity(), nil); err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	argv := []string{filepath.Join(s.bin, "postgres"), "-D", s.data(), "-k", s.o.RunDir}
	for _, setting := range append(settingsFor(s.data()), s.o.Settings...) {
		argv = append(argv, "-c", setting)
	}
	return process.Start(process.Spec{
		Identity: s.identity(), Argv: argv, Env: []string{"LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin"}, WorkDir: s.data(),
		User: s.owner, Group: s.owner, Output: s.logFile(), PidFile: s.pidFile(), OOMScore: -900,
	})
}

// awaitAnswer waits for a first answer and makes the database when it's missing.
func (s *Server) awaitAnswer(ctx context.Context, p *process.Process) error {
	config, err := pgx.ParseConfig(s.URL())
	if err != nil {
		return errors.New("the store's address can't be read") // the parser's error would show the password
	}
	config.Database = "postgres"
	err = p.Await(ctx, 5*time.Millisecond, func(ctx context.Context) (bool, error) {
		if !s.ready() {
			return false, errNotReady
		}
		err := makeDatabase(ctx, config)
		return err == nil, err
	})
	switch {
	case errors.Is(err, process.ErrEnded):
		return fmt.Errorf("it ended while starting: %s", s.lastWords())
	case err != nil:
		return fmt.Errorf("no answer in time: %w (%s)", err, s.lastWords())
	}
	return nil
}

var errNotReady = errors.New("it doesn't call itself ready")

// ready reports whether the server calls itself so, in the last line of its lock
// file: connecting to ask would hinder its recovery.
func (s *Server) ready() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	return err == nil && strings.HasSuffix(strings.TrimSpace(string(text)), "\nready")
}

// lastWords say why the server ended, as the end of its log has it, and where to find the rest.
func (s *Server) lastWords() string {
	text, _ := os.ReadFile(s.logFile()) // a missing log has no last line
	return whyEnded(string(text)) + "; see " + s.logFile()
}

// whyEnded is the last line of a log but for the fatal one that may stand shortly before it: a server that can't start says
// last that it is shut down.
func whyEnded(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for _, line := range slices.Backward(lines[max(0, len(lines)-wordsBefore):]) {
		if strings.Contains(line, " FATAL: ") || strings.Contains(line, " PANIC: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}

// wordsBefore is how many lines PostgreSQL writes at most about why it can't start: hints, and that it is shut down.
const wordsBefore = 6

func makeDatabase(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", database).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
	return err
}

func (s *Server) supervisor() *process.Supervisor {
	return &process.Supervisor{
		Name: "store", Logger: s.o.Logger, Ended: s.ended, Restart: s.ensureRunning,
		Output: s.logFile(), OutputMost: logMost, OutputKeep: logKeep, OutputEvery: logEvery,
	}
}

// ended is closed once the present process has ended.
func (s *Server) ended() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Done()
}

// Leave ends the supervision and lets the server run on, for the next steward.
func (s *Server) Leave() {
	s.stop()
	s.guard.Wait()
	s.process.Leave()
}

// Stop ends supervision and server.
func (s *Server) Stop(ctx context.Context) error {
	s.Leave()
	return Stop(ctx, s.o.Dir)
}

// Stop ends the embedded store in dir, if it runs.
func Stop(ctx context.Context, dir string) error {
	s := &Server{o: Options{Dir: dir}}
	p, err := process.Adopt(s.pidFile(), s.identity())
	if err != nil || p == nil {
		return err
	}
	if err := p.Stop(ctx, process.Request{Signal: syscall.SIGINT, Patience: 20 * time.Second}, nil); err != nil {
		return fmt.Errorf("stop the store: %w", err)
	}
	return nil
}
