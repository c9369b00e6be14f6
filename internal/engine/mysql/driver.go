// Package mysql runs MariaDB and Oracle's MySQL. One driver serves both: what
// differs between the two is a flavour.
//
// The driver connects through the node's unix socket as 'steward'@'localhost'.
// As names aren't resolved (skip_name_resolve), that account can't be reached
// over TCP at all. Its sessions keep out of the binary log: accounts and
// passwords belong to a node, not to the replicated data.
package mysql

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"steward/internal/engine"
)

// Our account and the customer's.
const (
	adminUser = "steward"
	rootUser  = "dbadmin"
)

// Driver is the engine.Driver of the MySQL family.
type Driver struct {
	log *slog.Logger
	// system are the folders where distributions put their servers.
	system []string
	// disabled are events to leave disabled on the next primary.
	disabled disabledEvents
	// copyLockWait is how long a copy waits for one lock.
	copyLockWait time.Duration
}

var _ engine.Driver = (*Driver)(nil)

// New makes a driver.
func New(log *slog.Logger) *Driver {
	return &Driver{log: log, system: []string{"/usr/sbin", "/usr/libexec", "/usr/local/sbin"}, copyLockWait: copyLockWait}
}

// Process implements engine.Driver.
func (d *Driver) Process(n engine.Node) engine.Process {
	server := flavourOf(n.Installation.Flavour).dialect().server
	return engine.Process{
		Argv: n.Installation.Program(server, "--defaults-file="+configFile(n)),
		Env:  environment,
	}
}

// environment of every server: nothing of ours, and times in UTC.
var environment = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin"}

// StopSignal implements engine.Driver: the server rolls back what is open,
// closes its clients' connections and writes everything out.
func (d *Driver) StopSignal() syscall.Signal { return syscall.SIGTERM }

// StopsChild implements engine.Driver: the server is one process.
func (d *Driver) StopsChild(string) syscall.Signal { return 0 }

// TellsOfStop implements engine.Driver: the connections are closed without a word.
func (d *Driver) TellsOfStop() bool { return false }

// Version implements engine.Driver.
func (d *Driver) Version(ctx context.Context, n engine.Node) (string, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return "", err
	}
	defer s.close()
	text, err := s.text(ctx, "SELECT VERSION()")
	if err != nil {
		return "", err
	}
	return parseVersion(text)
}

var dottedVersion = regexp.MustCompile(`\d+\.\d+\.\d+`)

// parseVersion finds "10.11.19" in "10.11.19-MariaDB-0+deb12u1-log" and in
// what the programs print for --version.
func parseVersion(text string) (string, error) {
	v := dottedVersion.FindString(text)
	if v == "" {
		return "", fmt.Errorf("no version in %q", text)
	}
	return v, nil
}

func configFile(n engine.Node) string { return filepath.Join(n.Conf, "my.cnf") }

func socketFile(n engine.Node) string { return filepath.Join(n.Run, "mysql.sock") }
