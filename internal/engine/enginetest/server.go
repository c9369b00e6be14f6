package enginetest

import (
	"context"
	"crypto/x509"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"steward/internal/await"
	"steward/internal/cluster"
	"steward/internal/engine"
)

// startDeadline is long because machines that run tests are busy.
const startDeadline = 60 * time.Second

// Server is one node and its process.
type Server struct {
	Node  engine.Node
	Bench *Bench
	// CA verifies the certificate that NewCertificates made last.
	CA    *x509.CertPool
	base  string
	uid   int
	cmd   *exec.Cmd
	ended chan struct{}
}

// WriteFiles writes the driver's configuration files, as the platform does
// before a start and before a reload.
func (s *Server) WriteFiles(t *testing.T) {
	t.Helper()
	files, err := s.Bench.Driver.Files(s.Node)
	must(t, err, "render files")
	for _, f := range files {
		if _, err := os.Stat(f.Path); err == nil && f.Once {
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(f.Path), 0o700), "make folder of "+f.Path)
		must(t, os.WriteFile(f.Path+".new", f.Content, 0o600), "write "+f.Path)
		must(t, os.Rename(f.Path+".new", f.Path), "put "+f.Path+" in place")
	}
	giveAway(t, s.base, s.uid)
	if s.Node.Keys != "" {
		giveAway(t, s.Node.Keys, s.uid)
	}
}

// Launch starts the process and doesn't wait for it.
func (s *Server) Launch(t *testing.T) {
	t.Helper()
	p := s.Bench.Driver.Process(s.Node)
	log, err := os.OpenFile(s.base+"/console.log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err, "open console log")
	defer log.Close()
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = p.Env, s.Node.Data, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}
	}
	must(t, cmd.Start(), "start server")
	s.cmd, s.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		cmd.Wait()
		close(ended)
	}(s.ended)
}

// Start launches the server and waits until it answers. Until then Ping must
// say that it is starting.
func (s *Server) Start(t *testing.T) {
	t.Helper()
	s.Launch(t)
	ctx, cancel := context.WithTimeout(t.Context(), startDeadline)
	defer cancel()
	await.NoError(t, "the server starts", func() error {
		err := s.Bench.Driver.Ping(ctx, s.Node)
		if err != nil && !errors.Is(err, engine.ErrStarting) {
			t.Fatalf("ping of a starting server: %v", err)
		}
		if err != nil && !s.Running() {
			t.Fatal("server ended while starting")
		}
		return err
	})
}

// Bootstrap calls the driver's Bootstrap.
func (s *Server) Bootstrap(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startDeadline)
	defer cancel()
	must(t, s.Bench.Driver.Bootstrap(ctx, s.Node), "bootstrap")
}

// Stop stops the server cleanly, as the platform does, and demands that it is quick about it.
func (s *Server) Stop(t *testing.T) {
	t.Helper()
	if s.Node.Role == cluster.Replica {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := s.Bench.Driver.PrepareStop(ctx, s.Node); err != nil {
			t.Logf("prepare the stop: %v", err) // it is only an advantage
		}
	}
	must(t, s.cmd.Process.Signal(s.Bench.Driver.StopSignal()), "ask server to stop")
	until, again := time.After(30*time.Second), time.NewTicker(time.Second)
	defer again.Stop()
	for {
		select {
		case <-s.ended:
			return
		case <-again.C:
			s.stopChildren()
		case <-until:
			t.Fatal("server didn't stop when asked")
		}
	}
}

// stopChildren signals what misses that the server stops, as the platform does.
func (s *Server) stopChildren() {
	for _, pid := range descendants(s.cmd.Process.Pid) {
		title, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if sig := s.Bench.Driver.StopsChild(string(title)); err == nil && sig != 0 {
			_ = syscall.Kill(pid, sig) // it may be gone
		}
	}
}

// Kill kills every process of the server with no warning and waits until all are gone.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	killTree(t, s.cmd.Process.Pid)
	<-s.ended
}

// Signal sends a signal to the server's first process.
func (s *Server) Signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	must(t, s.cmd.Process.Signal(sig), "signal server")
}

// Console is what the server wrote to its standard output and error.
func (s *Server) Console(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(s.base + "/console.log")
	must(t, err, "read console log")
	return string(content)
}

// Running reports whether the server's first process is alive.
func (s *Server) Running() bool {
	if s.ended == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

// Restart stops the server cleanly and starts it again.
func (s *Server) Restart(t *testing.T) {
	t.Helper()
	s.Stop(t)
	s.Start(t)
}

// Login is dbadmin's, verified TLS, database defaultdb.
func (s *Server) Login() Login {
	return Login{User: "dbadmin", Password: s.Node.RootPassword, Database: "defaultdb", CA: s.CA}
}

// DB opens a handle with one connection for the login.
func (s *Server) DB(t *testing.T, l Login) *sql.DB {
	t.Helper()
	db, err := s.Bench.Options.Open(s.Node, l)
	must(t, err, "open handle")
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

// TryLogin is nil when the login works.
func (s *Server) TryLogin(t *testing.T, l Login) error {
	t.Helper()
	db := s.DB(t, l)
	defer db.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var one int
	return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
}

// Exec runs statements as dbadmin and fails the test on the first error.
func (s *Server) Exec(t *testing.T, statements ...string) {
	t.Helper()
	db := s.DB(t, s.Login())
	defer db.Close()
	for _, q := range statements {
		_, err := db.ExecContext(t.Context(), q)
		must(t, err, q)
	}
}

// Text is the single value a query of dbadmin's answers.
func (s *Server) Text(t *testing.T, query string) string {
	t.Helper()
	db := s.DB(t, s.Login())
	defer db.Close()
	var text string
	must(t, db.QueryRowContext(t.Context(), query).Scan(&text), query)
	return text
}

func (s *Server) cleanUp(t *testing.T) {
	if s.Running() {
		s.Kill(t)
	}
	if s.cmd != nil && s.Node.Installation.Family() == cluster.PostgreSQL {
		removeSharedMemory(t, s.cmd.Process.Pid)
	}
	if t.Failed() {
		s.showLogs(t)
	}
	os.RemoveAll(s.base)
}

func (s *Server) showLogs(t *testing.T) {
	logs, _ := filepath.Glob(s.Node.Log + "/*")
	for _, name := range append(logs, s.base+"/console.log") {
		content, err := os.ReadFile(name)
		if err == nil {
			t.Logf("%s:\n%s", filepath.Base(name), content[max(0, len(content)-6000):])
		}
	}
}
