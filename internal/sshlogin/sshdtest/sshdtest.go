// Package sshdtest runs a real OpenSSH server for a test.
package sshdtest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/await"
	"steward/internal/testdir"
)

// program is where Debian has it; scripts/setup --build installs it.
const program = "/usr/sbin/sshd"

// Server is Debian's OpenSSH server on a port of its own, which ends with the test.
type Server struct {
	t      *testing.T
	folder string
	// Address is host:port; User is whom it lets in.
	Address string
	User    string
	options []string
	stop    func()
}

// New starts a server that lets the user of the test in by the keys that Allow names.
func New(t *testing.T, options ...string) *Server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatal("no sshd: run scripts/setup --build")
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if me.Uid == "0" {
		// What the service makes at its start, and sshd wants as root.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &Server{t: t, folder: t.TempDir(), Address: fmt.Sprintf("127.0.0.1:%d", testdir.Ports(t, 1)), User: me.Username, options: options}
	s.makeHostKey("ed25519")
	s.start()
	return s
}

// NewHostKey sets the machine up anew: with another host key, of a type that
// ssh-keygen knows.
func (s *Server) NewHostKey(kind string) {
	s.t.Helper()
	s.stop()
	s.makeHostKey(kind)
	s.start()
}

func (s *Server) makeHostKey(kind string) {
	s.t.Helper()
	path := filepath.Join(s.folder, "host_key")
	_ = os.Remove(path)
	if out, err := exec.Command("ssh-keygen", "-q", "-t", kind, "-N", "", "-f", path).CombinedOutput(); err != nil {
		s.t.Fatalf("make a host key: %v %s", err, out)
	}
}

func (s *Server) start() {
	s.t.Helper()
	config := append([]string{
		"ListenAddress " + s.Address, "HostKey " + s.folder + "/host_key", "AuthorizedKeysFile " + s.folder + "/authorized_keys",
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
	}, s.options...)
	path := filepath.Join(s.folder, "sshd_config")
	if err := os.WriteFile(path, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var log bytes.Buffer
	server := exec.Command(program, "-D", "-e", "-f", path)
	server.Stderr = &log
	if err := server.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = server.Wait(); close(ended) }()
	stopped := false
	s.stop = func() {
		if !stopped {
			stopped = true
			_ = server.Process.Kill()
			<-ended
		}
	}
	s.t.Cleanup(s.stop)
	await.NoError(s.t, "sshd listens", func() error {
		conn, err := net.Dial("tcp", s.Address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			s.t.Fatalf("sshd ended: %s", log.String())
		default:
		}
		return err
	})
}

// Allow writes the authorized_keys file.
func (s *Server) Allow(lines ...string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, "authorized_keys"), []byte(strings.Join(lines, "")), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
