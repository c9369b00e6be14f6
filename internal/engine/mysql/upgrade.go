package mysql

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
)

// upgradeProgram has the changes of MariaDB's system tables between series compiled in, and starts the others, which it
// looks for in the folder that it was started from itself.
const upgradeProgram = "mariadb-upgrade"

var upgradePrograms = []string{"mariadb", "mariadb-check"}

// UpgradeMissing implements engine.MajorUpgrader.
func (d *Driver) UpgradeMissing(from, to engine.Installation) string {
	switch {
	case from.Flavour != to.Flavour:
		return "MariaDB and MySQL can't be turned into one another; load a dump of the data into a new database."
	case to.Flavour != engine.FlavourMariaDB:
		return "Databases of MySQL aren't moved between versions here; load a dump of the data into a new database."
	}
	for _, name := range append([]string{upgradeProgram}, upgradePrograms...) {
		if to.Bin[name] == "" {
			return fmt.Sprintf("The build of MariaDB %s on this server lacks the programs that move data between series.", to.Series)
		}
	}
	return ""
}

// Obstacles implements engine.MajorUpgrader: tables that the server itself can't use. Those that somebody holds locked are fine.
func (d *Driver) Obstacles(ctx context.Context, n engine.Node, _ engine.Installation) ([]string, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.exec(ctx, "SET SESSION lock_wait_timeout = 1"); err != nil {
		return nil, err
	}
	return s.brokenTables(ctx)
}

// TracksChanges implements engine.MajorUpgrader: tables, and the binary logs, are written to by system calls.
func (d *Driver) TracksChanges(name string) bool {
	return strings.Contains(name, "/") || strings.HasPrefix(name, "binlog.0")
}

// PrepareUpgrade implements engine.MajorUpgrader: the copy itself becomes the new data.
func (d *Driver) PrepareUpgrade(context.Context, engine.Installation, string, engine.Runner) error {
	return nil
}

// Upgrade implements engine.MajorUpgrader: the new server runs on the copy, where nobody can reach it but by the socket in a
// folder of its user's, and mariadb-upgrade does its work. The history of transactions is a new one from there on, as after a
// restore: what was logged before can't be applied to what is logged now.
func (d *Driver) Upgrade(ctx context.Context, u engine.Upgrade, run engine.Runner) error {
	if err := os.Remove(u.New); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	if err := os.Rename(u.Old, u.New); err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	if err := d.upgradeServed(ctx, u, run); err != nil {
		return fmt.Errorf("upgrade from %s to %s: %w", u.From.ID(), u.To.ID(), err)
	}
	if info, err := os.Lstat(filepath.Join(u.New, upgradeNote)); err == nil && info.Mode().IsRegular() { // a database may be named so
		if err := os.Remove(filepath.Join(u.New, upgradeNote)); err != nil {
			return fmt.Errorf("upgrade: %w", err)
		}
	}
	return d.RegenerateIdentity(ctx, u.New)
}

// upgradeNote is where mariadb-upgrade notes what it did.
const upgradeNote = "mariadb_upgrade_info"

// upgradeServed has the new server run while its data is upgraded.
func (d *Driver) upgradeServed(ctx context.Context, u engine.Upgrade, run engine.Runner) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	socket := filepath.Join(u.Run, "upgrade.sock")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	server := engine.Process{Argv: u.To.Program(mariaDBDialect.server, upgradeArgs(u, socket)...), Env: environment}
	ended := make(chan error, 1)
	go func() {
		out, err := run(ctx, u.Work, server, nil)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, lastWords(out))
		}
		ended <- err
	}()
	err := d.upgradeBySocket(ctx, u, socket, run, ended)
	if err != nil {
		cancel()
	}
	return errors.Join(err, <-ended)
}

// upgradeArgs are those of the server: the binary log tells how far the history got.
func upgradeArgs(u engine.Upgrade, socket string) []string {
	return append(offlineArgs(u.After, u.New), "--skip-networking", "--socket="+socket, "--pid-file="+filepath.Join(u.Work, "mysql.pid"),
		"--log-bin=binlog", "--log-slave-updates", fmt.Sprintf("--server-id=%d", serverID(u.After)), "--skip-slave-start", "--event-scheduler=OFF",
		"--skip-name-resolve", "--character-set-server=utf8mb4", "--feedback=OFF", "--symbolic-links=OFF", "--local-infile=OFF", "--max-allowed-packet=64M",
		fmt.Sprintf("--innodb-buffer-pool-size=%dM", tune(u.After.Plan).poolMB))
}

// upgradeBySocket does what is to be done while the server runs, and has it end.
func (d *Driver) upgradeBySocket(ctx context.Context, u engine.Upgrade, socket string, run engine.Runner, ended chan error) error {
	s, err := d.awaitUpgradeServer(ctx, u.After, socket, ended)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	if err := runUpgradeProgram(ctx, u, socket, run); err != nil {
		return err
	}
	broken, err := s.brokenTables(ctx)
	if err != nil {
		return err
	}
	if len(broken) > 0 {
		return &engine.ImmovableError{Reasons: broken}
	}
	now, err := mariaDB{}.position(ctx, s)
	if err != nil {
		return err
	}
	statements := append(newHistory(u.After, now.transactions()), "UPDATE steward.installed SET version = VERSION()", "SHUTDOWN")
	return s.exec(ctx, statements...)
}

// awaitUpgradeServer returns a session of our own with the server when it has started.
func (d *Driver) awaitUpgradeServer(ctx context.Context, n engine.Node, socket string, ended chan error) (*session, error) {
	const look = 20 * time.Millisecond
	for {
		s, err := d.adminWith(ctx, n, n.AdminPassword, func(cfg *mysql.Config) { cfg.Addr = socket })
		if err == nil || !errors.Is(err, engine.ErrStarting) {
			return s, err
		}
		select {
		case err := <-ended:
			ended <- nil
			return nil, errors.Join(errors.New("the server doesn't start on the data"), err)
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(look):
		}
	}
}

// runUpgradeProgram hands the password over in a file.
func runUpgradeProgram(ctx context.Context, u engine.Upgrade, socket string, run engine.Runner) error {
	options := filepath.Join(u.Work, "upgrade.cnf")
	if err := writePrivate(u.Work, options, clientOptions("client", u.After, socket)); err != nil {
		return err
	}
	argv := append(upgradeCommand(u), "--defaults-file="+options, "--force", "--skip-write-binlog")
	if len(u.To.Loader) > 0 {
		if err := writeStarters(u); err != nil {
			return err
		}
	}
	out, err := run(ctx, u.Work, engine.Process{Argv: argv, Env: append(environment[:len(environment):len(environment)], "TMPDIR="+u.Work)}, nil)
	if err != nil {
		return fmt.Errorf("%s: %w: %s", upgradeProgram, err, lastWords(out))
	}
	return os.Remove(options)
}

// upgradeCommand begins the command line of mariadb-upgrade. That of a build with a loader of its own takes
// the folder with the starters for the one that it lies in.
func upgradeCommand(u engine.Upgrade) []string {
	if len(u.To.Loader) == 0 {
		return []string{u.To.Bin[upgradeProgram]}
	}
	argv := append([]string{}, u.To.Loader...)
	return append(argv, "--argv0", filepath.Join(u.Work, upgradeProgram), u.To.Bin[upgradeProgram])
}

// writeStarters writes scripts that start, through the build's own loader, the programs that mariadb-upgrade starts. Nothing else is started
// meanwhile: a process has what its parent had open until it is another program, and nobody can execute a script that is open for writing.
func writeStarters(u engine.Upgrade) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for _, name := range upgradePrograms {
		var line strings.Builder
		for _, word := range u.To.Program(name) {
			line.WriteString(" '" + strings.ReplaceAll(word, "'", `'\''`) + "'")
		}
		path := filepath.Join(u.Work, name)
		if err := writePrivate(u.Work, path, "#!/bin/sh\nexec"+line.String()+" \"$@\"\n"); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o500); err != nil {
			return err
		}
	}
	return nil
}

// AdoptSeries implements engine.MajorUpgrader: dbadmin gets what it gets in a new database of the series.
func (d *Driver) AdoptSeries(ctx context.Context, n engine.Node) error {
	if isReplica(n) {
		return nil
	}
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	if err := s.exec(ctx, flavourOf(n.Installation.Flavour).dialect().root...); err != nil {
		return fmt.Errorf("adopt accounts: %w", err)
	}
	return s.withholdProcess(ctx, n)
}

// FinishUpgrade implements engine.MajorUpgrader: statistics of tables are in tables themselves, and were moved with the data.
func (d *Driver) FinishUpgrade(context.Context, engine.Node) (string, error) { return "", nil }
