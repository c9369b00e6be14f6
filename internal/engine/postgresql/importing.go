package postgresql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/migration"
)

// errNotPostgreSQL is what is told of a source that answers something else.
var errNotPostgreSQL = &engine.SourceError{Reason: "The source doesn't answer as a PostgreSQL server does."}

// atSource connects to a source's database. Names that nobody chose decide nothing: the path is the catalog's.
func atSource(ctx context.Context, s engine.Source, database string, as ...func(*pgconn.Config)) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig("host=source port=5432 sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("prepare connection: %w", err)
	}
	config.Fallbacks, config.TLSConfig, config.ConnectTimeout = nil, s.TLS, connectTimeout
	config.User, config.Password, config.Database = s.Username, s.Password, database
	config.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	config.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Connect(ctx) }
	config.RuntimeParams = map[string]string{"search_path": "pg_catalog", "client_encoding": "UTF8", "application_name": "steward import", "datestyle": "ISO", "intervalstyle": "postgres", "extra_float_digits": "3", "timezone": "UTC"}
	for _, change := range as {
		change(config)
	}
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, sourceFailed(s, err)
	}
	return conn, nil
}

// replicating makes a connection one that may follow the source, and sets what guards it, if that is asked for.
func replicating(guard **sizeGuard) func(config *pgconn.Config) {
	return func(config *pgconn.Config) {
		config.RuntimeParams["replication"] = "database"
		config.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
			g := &sizeGuard{Reader: r}
			if guard != nil {
				*guard = g
			}
			return pgproto3.NewFrontend(g, w)
		}
	}
}

// sourceFailed is a source's error: what it says by itself is for its owner to put right. Its connections may be cut at any time, which is worth
// another try.
func sourceFailed(s engine.Source, err error) error {
	if given := s.Received.GivenUp(); given != nil {
		return &engine.SourceError{Reason: "It was given up: " + given.Error() + ".", Passing: errors.Is(given, engine.ErrSilent)}
	}
	if known, ok := errors.AsType[*engine.SourceError](err); ok {
		return known
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case strings.HasPrefix(refused.Code, "57P"), refused.Code == "55006": // it is being stopped or started; somebody who has gone still has the slot
			return fmt.Errorf("the source: %w", err)
		case refused.Code == "28P01", refused.Code == "28000":
			return &engine.SourceError{Reason: "The source doesn't let the user in: " + shownText(refused.Message)}
		}
		return &engine.SourceError{Reason: "The source refuses: " + shownText(refused.Message), Passing: passes(refused.Code)}
	}
	if lied, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return &engine.SourceError{Reason: "The source can't be connected to as a PostgreSQL server: " + shownText(connectReason(lied)), Passing: true}
	}
	return fmt.Errorf("the source: %w", err)
}

// connectReason is the innermost reason of an error that lists who was to be connected to.
func connectReason(err error) string {
	inner := err
	for next := errors.Unwrap(inner); next != nil; next = errors.Unwrap(inner) {
		inner = next
	}
	return inner.Error()
}

// mostShown is how much of a text is shown that a source chose.
const mostShown = 200

// shownText is a text of a source's as people are shown it.
func shownText(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	return text
}

// mostAnswer bounds what a source may answer to a question of ours, which is held in memory.
const mostAnswer = 32 << 20

// askSource runs statements on a source and returns the rows of the last that has any.
func askSource(ctx context.Context, s engine.Source, conn *pgconn.PgConn, statement string) (rows [][]string, err error) {
	results := conn.Exec(ctx, statement)
	left := mostAnswer
	for left > 0 && results.NextResult() {
		rows = nil
		for left > 0 && results.ResultReader().NextRow() {
			var row []string
			for _, value := range results.ResultReader().Values() {
				row = append(row, string(value))
				left -= len(value) + 16
			}
			rows = append(rows, row)
			left -= 32
		}
	}
	if left <= 0 {
		conn.Conn().Close() // nobody reads the rest
		return nil, &engine.SourceError{Reason: "It was given up: the source's answer has no end."}
	}
	if err := results.Close(); err != nil {
		return nil, sourceFailed(s, err)
	}
	return rows, nil
}

// importerName is what our sessions in a target are called.
const importerName = "steward import"

// atTarget connects to a database of ours as its customer, for as long as it takes.
func atTarget(ctx context.Context, n engine.Node, database string) (*pgconn.PgConn, error) {
	config, err := verified(n)
	if err != nil {
		return nil, err
	}
	return connect(ctx, login{
		host: door(n).Addr().String(), port: door(n).Port(), user: customerRole, password: n.RootPassword, database: database, tls: config,
		parameters: map[string]string{
			"search_path": "pg_catalog", "application_name": importerName, "client_encoding": "UTF8", "client_min_messages": "error",
			"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0", "synchronous_commit": "off",
			"datestyle": "ISO", "intervalstyle": "postgres", "timezone": "UTC",
		},
	})
}

// targetFailed is an error of the target's: what it refuses dbadmin is told.
func targetFailed(what string, err error) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok, errors.Is(classify(err), engine.ErrStarting), errors.Is(classify(err), engine.ErrAuthentication):
		return fmt.Errorf("%s: %w", what, classify(err))
	case refused.Code == codeReadOnly:
		return &engine.SourceError{Reason: "The database has no room left for what comes from the source: give it a larger type.", Passing: true}
	}
	return &engine.SourceError{Reason: "The database refuses to " + what + ": " + shownText(refused.Message), Passing: passes(refused.Code)}
}

// passes reports whether what a server refuses now it may do later: conflicts, a lack of something, locks, a cancelled statement.
func passes(code string) bool {
	return strings.HasPrefix(code, "40") || strings.HasPrefix(code, "53") || code == "55P03" || code == "57014"
}

// examination is what is asked of a source, or of one of its databases.
type examination struct {
	report   *migration.Report
	database string
	// offered are the extensions that can be made here.
	offered map[string]bool
	mode    migration.Mode
}

func (x examination) problem(blocking bool, format string, args ...any) {
	x.report.Problems = append(x.report.Problems, migration.Problem{Database: x.database, Blocking: blocking, Message: fmt.Sprintf(format, args...)})
}

// Examine implements engine.Importer.
func (Driver) Examine(ctx context.Context, n engine.Node, s engine.Source, mode migration.Mode, databases []migration.Database) (r migration.Report, err error) {
	rows, err := ask(ctx, n, available)
	if err != nil {
		return r, fmt.Errorf("list extensions: %w", err)
	}
	offered := map[string]bool{"plpgsql": true}
	for _, row := range rows {
		const trusted = 5
		offered[row[0]] = offered[row[0]] || row[trusted] == "t" // others can't be made by a schema's script
	}
	for i, database := range databases {
		if err := examineDatabase(ctx, n, s, examination{&r, database.From, offered, mode}, i == 0, len(databases)); err != nil {
			return r, fmt.Errorf("database %s: %w", insight.Name(database.From), err)
		}
	}
	return r, nil
}

func examineDatabase(ctx context.Context, n engine.Node, s engine.Source, x examination, first bool, databases int) error {
	conn, err := atSource(ctx, s, x.database)
	if err != nil {
		return err
	}
	defer closeSoon(ctx, conn)
	if first {
		if err := x.server(ctx, s, conn, n); err != nil {
			return err
		}
		if x.mode == migration.Replicate {
			if err := x.follows(ctx, s, conn, databases); err != nil {
				return err
			}
		}
	}
	if err := x.content(ctx, s, conn); err != nil || x.mode != migration.Replicate {
		return err
	}
	return x.followsContent(ctx, s, conn)
}

var versionNumber = regexp.MustCompile(`^[0-9]{5,6}$`)

// server looks at what is the same for all of a source's databases.
func (x examination) server(ctx context.Context, s engine.Source, conn *pgconn.PgConn, n engine.Node) error {
	rows, err := askSource(ctx, s, conn, "SELECT current_setting('server_version_num'), current_setting('server_version'), current_setting('wal_level'), (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)")
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 4 || !versionNumber.MatchString(rows[0][0]) {
		return errNotPostgreSQL
	}
	number, _ := strconv.Atoi(rows[0][0])
	major, err := majorOf(n.Installation)
	if err != nil {
		return err
	}
	x.database = ""
	x.report.Version = shownText(rows[0][1])
	x.report.Replicates = rows[0][2] == "logical" && rows[0][3] == "t"
	switch theirs := number / 10000; {
	case theirs > major:
		x.problem(true, "The source is PostgreSQL %d, newer than this database's %d: bring it to a database of that version or a later one", theirs, major)
	case theirs < oldestSource:
		x.problem(true, "The source is PostgreSQL %d, older than %d, the oldest that can be read", theirs, oldestSource)
	}
	return nil
}

// oldestSource is the oldest version that pg_dump reads, and COPY's ways of writing were the same in.
const oldestSource = 10

// contentOf are what stands in the way of a database, one row of counts and names.
const contentOf = `SELECT pg_database_size(current_database()),
	(SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
	(SELECT count(*) FROM pg_largeobject_metadata),
	(SELECT count(*) FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.relkind IN ('r', 'S') AND s.nspname !~ '^pg_' AND s.nspname <> 'information_schema'
		AND NOT (has_schema_privilege(s.oid, 'USAGE') AND CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'SELECT') ELSE has_table_privilege(c.oid, 'SELECT') END)),
	(SELECT count(*) FROM pg_foreign_data_wrapper),
	(SELECT count(*) FROM pg_event_trigger) + (SELECT count(*) FROM pg_publication),
	(SELECT count(*) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE l.lanname NOT IN ('sql', 'plpgsql') AND p.pronamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_' OR nspname = 'information_schema')
		AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')),
	(SELECT coalesce(string_agg(extname, ' '), '') FROM pg_extension),
	(SELECT count(*) FROM pg_class c WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'steward'))`

// content looks at what is in a database.
func (x examination) content(ctx context.Context, s engine.Source, conn *pgconn.PgConn) error {
	rows, err := askSource(ctx, s, conn, contentOf)
	if err != nil {
		return err
	}
	const columns = 9
	if len(rows) != 1 || len(rows[0]) != columns {
		return errNotPostgreSQL
	}
	r := rows[0]
	size, err := strconv.ParseInt(r[0], 10, 64)
	if err != nil || size < 0 {
		return errNotPostgreSQL
	}
	x.report.Bytes += size
	if r[1] == "SQL_ASCII" {
		x.problem(true, "Its encoding is SQL_ASCII, which says nothing of what its texts are: give it another first")
	}
	for i, message := range map[int]string{
		2: "It has large objects (%s), which aren't brought over: put them into columns first, or export and import the database",
		3: "The user can't read %s of its tables and sequences: grant it SELECT on them, and USAGE on their schemas",
		4: "It has foreign data wrappers (%s), which databases here can't have",
		8: "It has %s tables and the like in a schema steward, which is ours in databases here: give it another name first",
		6: "It has functions (%s) in languages that databases here don't have",
	} {
		if r[i] != "0" {
			x.problem(true, message, shownText(r[i]))
		}
	}
	if r[5] != "0" {
		x.problem(false, "Its event triggers and publications (%s) are left out", shownText(r[5]))
	}
	for extension := range strings.FieldsSeq(r[7]) {
		if !x.offered[extension] {
			x.problem(true, "It has the extension %s, which isn't offered here", insight.Name(shownText(extension)))
		}
	}
	return nil
}

// Empty implements engine.Importer.
func (Driver) Empty(ctx context.Context, n engine.Node, database string) (bool, error) {
	conn, err := atTarget(ctx, n, database)
	if err != nil {
		return false, targetFailed("let steward in", err)
	}
	defer closeSoon(ctx, conn)
	rows, err := query(ctx, conn, "SELECT count(*) FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname !~ '^pg_' AND s.nspname NOT IN ('information_schema', 'steward')")
	if err != nil || len(rows) != 1 {
		return false, targetFailed("be looked into", err)
	}
	return rows[0][0] == "0", nil
}

// Import implements engine.Importer.
func (Driver) Import(ctx context.Context, n engine.Node, s engine.Source, d migration.Database, tools engine.ToolSandbox, report func(engine.ImportProgress)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	snapshot, err := atSource(ctx, s, d.From)
	if err != nil {
		return err
	}
	defer closeSoon(ctx, snapshot)
	i := &importing{n: n, s: s, d: d, tools: tools, report: report, source: snapshot, began: time.Now()}
	return i.run(ctx)
}

// importing is one database on its way.
type importing struct {
	n      engine.Node
	s      engine.Source
	d      migration.Database
	tools  engine.ToolSandbox
	report func(engine.ImportProgress)
	source *pgconn.PgConn
	// snapshot names the moment that all connections to the source see.
	snapshot string
	target   *pgconn.PgConn
	// began is when it was begun to be copied.
	began time.Time
}

func (i *importing) run(ctx context.Context) (err error) {
	var from lsn
	if i.d.Slot != "" {
		var holding *pgconn.PgConn
		if holding, from, err = i.hold(ctx); err != nil {
			return err
		}
		defer closeSoon(ctx, holding)
	} else if i.snapshot, err = takeSnapshot(ctx, i.s, i.source); err != nil {
		return err
	}
	if i.target, err = atTarget(ctx, i.n, i.d.To); err != nil {
		return targetFailed("let steward in", err)
	}
	defer closeSoon(ctx, i.target)
	i.report(engine.ImportProgress{Phase: migration.Schema})
	schema, err := i.dumpSchema(ctx)
	if err != nil {
		return err
	}
	if err := i.apply(ctx, schema, "pre-data"); err != nil {
		return err
	}
	i.report(engine.ImportProgress{Phase: migration.Copying})
	if err := i.copyTables(ctx); err != nil {
		return err
	}
	i.report(engine.ImportProgress{Phase: migration.Indexes})
	if i.d.Slot != "" {
		return i.leaveToFollow(ctx, schema, from)
	}
	if err := i.setSequences(ctx); err != nil {
		return err
	}
	if err := i.apply(ctx, schema, "post-data"); err != nil {
		return err
	}
	if err := i.fillViews(ctx); err != nil {
		return err
	}
	i.report(engine.ImportProgress{Phase: migration.Analyzing})
	if _, err := query(ctx, i.target, "ANALYZE"); err != nil {
		return targetFailed("analyze the tables", err)
	}
	return nil
}

var snapshotName = regexp.MustCompile(`^[0-9A-F]+(-[0-9A-F]+)+$`)

// takeSnapshot begins a transaction whose moment others can see, too.
func takeSnapshot(ctx context.Context, s engine.Source, conn *pgconn.PgConn) (string, error) {
	rows, err := askSource(ctx, s, conn, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT pg_export_snapshot()")
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 1 || !snapshotName.MatchString(rows[0][0]) {
		return "", errNotPostgreSQL
	}
	return rows[0][0], nil
}

// program is one of the programs beside the server's own.
func (i *importing) program(name string, args ...string) []string {
	inst := i.n.Installation
	inst.Bin = map[string]string{name: filepath.Join(filepath.Dir(inst.Bin["postgres"]), name)}
	return inst.Program(name, args...)
}

// waitForSource bounds the making of a connection that a tool waits for.
const waitForSource = 30 * time.Second
