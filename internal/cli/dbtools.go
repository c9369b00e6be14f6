package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steward/internal/migration"
)

// find is the first of some programs that is there.
func (e *ends) find(names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	what := "PostgreSQL's client programs (postgresql-client)"
	if e.mysql {
		what = "the client programs of MySQL or MariaDB (mariadb-client)"
	}
	return "", fmt.Errorf("%s isn't installed here: install %s", strings.Join(names, " or "), what)
}

// command is one of the server's programs, with the way to the database but no password: neither its command line nor what it inherits has that.
func (e *ends) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !strings.HasPrefix(name, "PG") && name != "MYSQL_PWD" {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	if !e.mysql {
		cmd.Env = append(cmd.Env, "PGHOST="+e.host, "PGPORT="+strconv.Itoa(e.port), "PGUSER="+e.user, "PGDATABASE="+e.logical,
			"PGPASSFILE="+e.conf, "PGSSLMODE=verify-full", "PGSSLROOTCERT="+e.ca)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// dump writes the database as SQL.
func (e *ends) dump(ctx context.Context, w, said io.Writer, custom bool) error {
	names, args := []string{"pg_dump"}, []string{"--no-owner", "--no-privileges", "--exclude-schema=steward"} // which any database of ours has already
	if custom {
		args = append(args, "--format=custom")
	}
	if e.mysql {
		names = []string{"mysqldump"}
		args = []string{"--defaults-file=" + e.conf, "--single-transaction", "--quick", "--routines", "--triggers", "--events", "--no-tablespaces", "--hex-blob", "--", e.logical}
	}
	if e.mariadb {
		names = []string{"mariadb-dump", "mysqldump"}
	}
	program, err := e.find(names...)
	if err != nil {
		return err
	}
	cmd := e.command(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = w, said
	return runTool(ctx, cmd)
}

// runTool runs a program to its end.
func runTool(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fmt.Errorf("%s: %w", cmd.Args[0], err)
	}
	return nil
}

// load reads a dump into the database. The dump is anybody's: what reads it runs no command that it brings.
func (e *ends) load(ctx context.Context, dump *bufio.Reader, said io.Writer) error {
	if e.mysql {
		return e.loadMySQL(ctx, dump, said)
	}
	psql, err := e.find("psql")
	if err != nil {
		return err
	}
	if err := restricts(ctx, psql); err != nil {
		return err
	}
	head, err := dump.Peek(len(customMagic))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the dump: %w", err)
	}
	var sql io.Reader = dump
	ended := func() error { return nil }
	if bytes.Equal(head, []byte(customMagic)) {
		if sql, ended, err = e.unpack(ctx, dump, said); err != nil {
			return err
		}
	}
	cmd := e.command(ctx, psql, "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse", "--output="+os.DevNull, "--file=-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = migration.Restricted(sql, newKey()), io.Discard, said
	return errors.Join(runTool(ctx, cmd), ended())
}

// customMagic is how PostgreSQL's custom format begins.
const customMagic = "PGDMP"

// unpack turns PostgreSQL's custom format into SQL. ended ends what does so, and says what it came to.
func (e *ends) unpack(ctx context.Context, dump io.Reader, said io.Writer) (sql io.Reader, ended func() error, err error) {
	program, err := e.find("pg_restore")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	cmd := e.command(ctx, program, "--no-owner", "--no-privileges", "--file=-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = dump, w, said
	result := make(chan error, 1)
	go func() {
		err := runTool(ctx, cmd)
		result <- errors.Join(err, w.CloseWithError(err))
	}()
	return r, func() error {
		_ = r.Close() // it has been read, or nobody will
		defer cancel()
		return <-result
	}, nil
}

func (e *ends) loadMySQL(ctx context.Context, dump io.Reader, said io.Writer) error {
	names := []string{"mysql"}
	if e.mariadb {
		names = []string{"mariadb", "mysql"}
	}
	program, err := e.find(names...)
	if err != nil {
		return err
	}
	cmd := e.command(ctx, program, "--defaults-file="+e.conf, "--binary-mode", "--batch", "--local-infile=0", "--", e.logical)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = migration.WithoutDefiners(dump, e.mariadb), io.Discard, said
	return runTool(ctx, cmd)
}

var psqlVersion = regexp.MustCompile(`\) ([0-9]+)\.([0-9]+)`)

// leastRestricting are the first of each series whose psql can be kept from running commands that a dump brings.
var leastRestricting = map[int]int{13: 22, 14: 19, 15: 14, 16: 10, 17: 6}

// restricts is nil for a psql that can be told to run no command of its own.
func restricts(ctx context.Context, psql string) error {
	said, err := exec.CommandContext(ctx, psql, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", psql, err)
	}
	if found := psqlVersion.FindSubmatch(said); found != nil {
		major, _ := strconv.Atoi(string(found[1]))
		minor, _ := strconv.Atoi(string(found[2]))
		if least, known := leastRestricting[major]; known && minor >= least || major >= 18 {
			return nil
		}
	}
	return fmt.Errorf("%s can't be kept from running commands that a dump brings (\\!): install 13.22, 14.19, 15.14, 16.10, 17.6, 18 or a later one", strings.TrimSpace(string(said)))
}
