package mysql

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/migration"
)

// errNotMySQL is what is told of a source that answers something else.
var errNotMySQL = &engine.SourceError{Reason: "The source doesn't answer as a MariaDB or MySQL server does."}

// atSource opens a session at a source. It is never asked for a file of ours, nor for the password in the clear.
func atSource(ctx context.Context, s engine.Source) (*session, error) {
	opened, err := openGuarded(ctx, sourceConfig(s))
	if err != nil {
		return nil, sourceFailed(s, err)
	}
	return opened, nil
}

func sourceConfig(s engine.Source) *mysql.Config {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.TLS = s.Username, s.Password, "tcp", "source:3306", s.TLS
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Connect(ctx) }
	return cfg
}

// sourceFailed is a source's error: what it says by itself is for its owner to put right.
func sourceFailed(src engine.Source, err error) error {
	if known, ok := errors.AsType[*engine.SourceError](err); ok {
		return known
	}
	if refused, ok := errors.AsType[*mysql.MySQLError](err); ok {
		if errors.Is(err, engine.ErrAuthentication) || refused.Number == errAccessDenied {
			return &engine.SourceError{Reason: "The source doesn't let the user in: " + insight.Said(refused.Message)}
		}
		passes := slices.Contains([]uint16{errTooManyConnections, errTooManyOfUser, errUserLimit, errShutdown, errConnectionMD, errLockWaitTimeout}, refused.Number)
		return &engine.SourceError{Reason: "The source refuses: " + insight.Said(refused.Message), Passing: passes}
	}
	if given := src.Received.GivenUp(); given != nil {
		return &engine.SourceError{Reason: "It was given up: " + given.Error() + ".", Passing: errors.Is(given, engine.ErrSilent)}
	}
	return &engine.SourceError{Reason: "The source can't be asked: " + insight.Said(err.Error()), Passing: true}
}

// program is a client program beside the server's.
func program(n engine.Node, mariadb, plain string) (string, error) {
	name := plain
	if n.Installation.Flavour == engine.FlavourMariaDB {
		name = mariadb
	}
	file := filepath.Join(n.Installation.Home, "bin", name)
	if _, err := os.Stat(file); err != nil {
		return "", &engine.SourceError{Reason: "The program " + name + ", which it takes, isn't installed on this server; ask its operator."}
	}
	return file, nil
}

// Examine implements engine.Importer.
func (d *Driver) Examine(ctx context.Context, n engine.Node, s engine.Source, mode migration.Mode, databases []migration.Database) (r migration.Report, err error) {
	if _, err := program(n, "mariadb-dump", "mysqldump"); err != nil {
		return r, err
	}
	source, err := atSource(ctx, s)
	if err != nil {
		return r, err
	}
	defer source.close()
	if err := examineServer(ctx, s, source, n, mode, &r); err != nil {
		return r, err
	}
	for _, database := range databases {
		if err := examineDatabase(ctx, s, source, database.From, mode, &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// examineServer looks at what is the same for all of a source's databases.
func examineServer(ctx context.Context, src engine.Source, s *session, n engine.Node, mode migration.Mode, r *migration.Report) error {
	version, err := s.text(ctx, "SELECT VERSION()")
	if err != nil {
		return sourceFailed(src, err)
	}
	r.Version = insight.Said(version)
	number, err := parseVersion(version)
	if err != nil {
		return errNotMySQL
	}
	problem := func(format string, args ...any) {
		r.Problems = append(r.Problems, migration.Problem{Blocking: true, Message: fmt.Sprintf(format, args...)})
	}
	theirs := engine.FlavourMySQL
	if strings.Contains(version, "MariaDB") {
		theirs = engine.FlavourMariaDB
	}
	switch {
	case theirs != n.Installation.Flavour:
		problem("The source is %s, and this database is %s: they differ too much for one to read the other's dumps", theirs, n.Installation.Flavour)
	case engine.CompareVersions(seriesOf(number), n.Installation.Series) > 0:
		problem("The source is %s, newer than this database's %s: bring it to a database of that version or a later one", seriesOf(number), n.Installation.Series)
	}
	r.Replicates = true
	return examineLog(ctx, src, s, func(format string, args ...any) {
		if r.Replicates = false; mode == migration.Replicate {
			problem(format, args...)
		}
	})
}

// seriesOf is the series of a version: 10.11 of 10.11.14.
func seriesOf(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}

// contentOf is about what a database takes, and how many of its tables are of engines that can't be read as of one moment, or not here at all.
const contentOf = `SELECT CAST(COALESCE(SUM(DATA_LENGTH + INDEX_LENGTH), 0) AS CHAR), CAST(COALESCE(SUM(ENGINE IN ('MyISAM', 'Aria', 'MEMORY')), 0) AS CHAR),
	CAST(COALESCE(SUM(ENGINE NOT IN ('InnoDB', 'MyISAM', 'Aria', 'MEMORY') AND TABLE_TYPE = 'BASE TABLE'), 0) AS CHAR) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?`

// examineDatabase looks at what is in a database.
func examineDatabase(ctx context.Context, src engine.Source, s *session, database string, mode migration.Mode, r *migration.Report) error {
	there, err := s.text(ctx, "SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?", database)
	if err != nil {
		return sourceFailed(src, err)
	}
	problem := func(blocking bool, message string) {
		r.Problems = append(r.Problems, migration.Problem{Database: database, Blocking: blocking, Message: message})
	}
	if there != "1" {
		problem(true, "The source has no such database, or the user can't see it")
		return nil
	}
	var size, unlocked, foreign string
	if err := s.conn.QueryRowContext(ctx, contentOf, database).Scan(&size, &unlocked, &foreign); err != nil {
		return sourceFailed(src, err)
	}
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil || bytes < 0 {
		return errNotMySQL
	}
	r.Bytes += bytes
	if mode == migration.Replicate {
		if err := examineFollowed(ctx, src, s, database, problem); err != nil {
			return err
		}
	} else if unlocked != "0" {
		problem(false, insight.Said(unlocked)+" of its tables (MyISAM, Aria, MEMORY) aren't of the same moment as the others if they are written to meanwhile")
	}
	if foreign != "0" {
		problem(true, insight.Said(foreign)+" of its tables are of a storage engine that databases here don't have")
	}
	return nil
}

// Empty implements engine.Importer.
func (d *Driver) Empty(ctx context.Context, n engine.Node, database string) (bool, error) {
	s, err := d.root(ctx, n)
	if err != nil {
		return false, err
	}
	defer s.close()
	found, err := s.text(ctx, "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?) + (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ?)", database, database)
	return found == "0", err
}

// loginFile is what client programs have the user and the password from. They speak through a socket, where encryption is left out: it is ours.
func loginFile(dir, socket, user, password string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	return fmt.Appendf(nil, "[client]\nsocket=\"%s\"\nprotocol=socket\nuser=\"%s\"\npassword=\"%s\"\n", path.Join(dir, socket), escape.Replace(user), escape.Replace(password))
}

// Import implements engine.Importer: what the source's tables are made of and their rows, passed from the program that reads them to the one that writes
// them. Neither has a network; they reach one server each.
func (d *Driver) Import(ctx context.Context, n engine.Node, s engine.Source, database migration.Database, tools engine.ToolSandbox, report func(engine.ImportProgress)) error {
	dumper, err := program(n, "mariadb-dump", "mysqldump")
	if err != nil {
		return err
	}
	loader, err := program(n, "mariadb", "mysql")
	if err != nil {
		return err
	}
	i := &importing{n: n, s: s, d: database, tools: tools, report: report, began: time.Now()}
	if database.Slot == "" {
		return i.copy(ctx, dumper, loader)
	}
	source, err := atSource(ctx, s)
	if err != nil {
		return err
	}
	fingerprint, err := askFingerprint(ctx, s, source, database.From)
	source.close() // it may not be asked anything for hours
	if err == nil {
		err = i.copy(ctx, dumper, loader)
	}
	if err != nil {
		return err
	}
	if source, err = atSource(ctx, s); err != nil {
		return err
	}
	defer source.close()
	return i.leaveToFollow(ctx, d, source, fingerprint)
}

// copy passes the dump on.
func (i *importing) copy(ctx context.Context, dumper, loader string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := i.dump(ctx, dumper, w)
		_ = w.CloseWithError(err) // never fails
		read <- err
	}()
	i.report(engine.ImportProgress{Phase: migration.Copying})
	err := i.load(ctx, loader, i.watched(placed(r, &i.from)))
	_ = r.CloseWithError(errors.New("the target takes no more"))
	failed := <-read
	if failed != nil && (err == nil || i.cut.Load()) {
		return failed
	}
	if err != nil { // of which the dump's end is but a consequence
		return err
	}
	i.finished()
	return nil
}

// importing is one database on its way.
type importing struct {
	n      engine.Node
	s      engine.Source
	d      migration.Database
	tools  engine.ToolSandbox
	report func(engine.ImportProgress)
	// table is the one whose rows pass, bytes how much of it has.
	table string
	bytes int64
	// from is where the source's log was at the moment that it was copied as of; nowhere for what isn't followed.
	from binlogPosition
	// began is when it was begun to be copied.
	began time.Time
	// cut reports whether the source's end came first.
	cut atomic.Bool
}

// dump writes what the source's database has.
func (i *importing) dump(ctx context.Context, program string, w io.Writer) error {
	const socket, login = "source.sock", "source.cnf"
	dir := i.tools.Dir()
	args := []string{"--defaults-file=" + path.Join(dir, login), "--single-transaction", "--quick", "--routines", "--hex-blob", "--no-tablespaces", "--skip-lock-tables", "--default-character-set=utf8mb4"}
	follows, mysql := i.d.Slot != "", i.n.Installation.Flavour == engine.FlavourMySQL
	if mysql {
		args = append(args, "--set-gtid-purged=OFF", "--column-statistics=0")
	}
	switch {
	case !follows:
		args = append(args, "--triggers", "--events")
	case mysql:
		args = append(args, "--skip-triggers", "--source-data=2")
	default:
		args = append(args, "--skip-triggers", "--master-data=2")
	}
	said, err := i.tools.Run(ctx, engine.Tool{
		Argv: i.argv(program, append(args, "--", i.d.From)...), Env: []string{"HOME=" + dir, "LC_ALL=C.UTF-8"},
		Files:  map[string][]byte{login: loginFile(dir, socket, i.s.Username, i.s.Password)},
		Socket: socket, Connect: func(ctx context.Context) (net.Conn, error) { return i.connect(ctx, i.s.Connect, i.s.TLS) }, Stdout: w,
	})
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("read the source: %w", ctx.Err())
	}
	i.cut.Store(!strings.Contains(string(said), "Got errno 32")) // the pipe's other end is gone
	if given := i.s.Received.GivenUp(); given != nil {
		return &engine.SourceError{Reason: "It was given up: " + given.Error() + "."}
	}
	if strings.Contains(string(said), "Error 1412:") || strings.Contains(string(said), "(1684)") { // a table was made anew, as TRUNCATE does, or just is
		return fmt.Errorf("read the source: %w: %w: %s", engine.ErrSourceChanges, err, said)
	}
	return &engine.SourceError{Reason: "The source can't be read: " + lastLine(said, err)}
}

// load writes it into the target. The program has been told to run no command of its own.
func (i *importing) load(ctx context.Context, program string, dump io.Reader) error {
	const socket, login = "target.sock", "target.cnf"
	dir := i.tools.Dir()
	config, err := verified(i.n)
	if err != nil {
		return err
	}
	dial := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", i.n.Listen.String())
	}
	mariadb := i.n.Installation.Flavour == engine.FlavourMariaDB
	said, err := i.tools.Run(ctx, engine.Tool{
		Argv: i.argv(program, "--defaults-file="+path.Join(dir, login), "--binary-mode", "--batch", "--local-infile=0", "--default-character-set=utf8mb4", "--", i.d.To), Env: []string{"HOME=" + dir, "LC_ALL=C.UTF-8"},
		Files:  map[string][]byte{login: loginFile(dir, socket, rootUser, i.n.RootPassword)},
		Socket: socket, Connect: func(ctx context.Context) (net.Conn, error) { return i.connect(ctx, dial, config) },
		Stdin: migration.WithoutDefiners(dump, mariadb), Stdout: io.Discard,
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("write what was read: %w", ctx.Err())
	case strings.Contains(string(said), "--read-only"):
		return &engine.SourceError{Reason: "The database has no room left for what comes from the source: give it a larger type."}
	case strings.Contains(string(said), "ERROR 20"): // the connection to the target is gone
		return fmt.Errorf("write what was read: %w: %s", err, said)
	}
	return &engine.SourceError{Reason: "The database refuses what comes from the source: " + lastLine(said, err)}
}

// connectTimeout bounds a connection to a server that hangs.
const connectTimeout = 10 * time.Second

func (i *importing) connect(ctx context.Context, dial func(ctx context.Context) (net.Conn, error), config *tls.Config) (net.Conn, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	h, err := handshake(ctx, conn, config)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return h, nil
}

// argv is a client program's command line.
func (i *importing) argv(file string, args ...string) []string {
	inst := i.n.Installation
	inst.Bin = map[string]string{filepath.Base(file): file}
	return inst.Program(filepath.Base(file), args...)
}

// watched passes a dump on and tells which table's rows pass.
func (i *importing) watched(dump io.Reader) io.Reader {
	return migration.Watched(dump, func(table string) {
		i.finished()
		i.table, i.bytes = table, 0
		i.report(engine.ImportProgress{Table: &migration.Table{Name: insight.Said(table)}})
	}, func(n int) {
		const every = 64 << 10 // little: how far a slow source is, is told too
		if i.bytes += int64(n); i.table != "" && i.bytes/every != (i.bytes-int64(n))/every {
			i.report(engine.ImportProgress{Table: &migration.Table{Name: insight.Said(i.table), Bytes: i.bytes}})
		}
	})
}

// finished tells of the end of the table whose rows passed last.
func (i *importing) finished() {
	if i.table != "" {
		i.report(engine.ImportProgress{Table: &migration.Table{Name: insight.Said(i.table), Bytes: i.bytes, Done: true}})
	}
}

// lastLine is the last of what a program said, as people are shown it.
func lastLine(said []byte, err error) string {
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return insight.Said(last)
	}
	return insight.Said(err.Error())
}
