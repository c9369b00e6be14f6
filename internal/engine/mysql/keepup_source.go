package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
	"steward/internal/insight"
	"steward/internal/migration"
)

// logSettings are what a source has to log so that it can be followed, by variables that some versions don't have any more, or yet: "" is nothing.
var logSettings = map[string][]string{
	"log_bin": {"ON", "1"}, "binlog_format": {"ROW"}, "binlog_row_image": {"FULL"},
	"log_bin_compress": {"OFF"}, "binlog_transaction_compression": {"OFF"}, "binlog_row_value_options": {""},
}

// followRights are those that it takes, as their names are where each version lists them.
const followRights = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = CONCAT('''', REPLACE(SUBSTRING_INDEX(CURRENT_USER(), '@', LENGTH(CURRENT_USER()) - LENGTH(REPLACE(CURRENT_USER(), '@', ''))), '''', ''''''), '''@''', SUBSTRING_INDEX(CURRENT_USER(), '@', -1), '''')"

// examineLog looks at what a server needs that is followed.
func examineLog(ctx context.Context, src engine.Source, s *session, problem func(format string, args ...any)) error {
	rows, err := s.rows(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('"+strings.Join(slices.Sorted(maps.Keys(logSettings)), "', '")+"')")
	if err != nil {
		return sourceFailed(src, err)
	}
	for _, r := range rows {
		if len(r) == 2 && !slices.Contains(logSettings[strings.ToLower(r[0])], r[1]) {
			problem("The source's %s is %s: set it to %s there and have clients connect anew, or use mode dump", insight.Name(r[0]), insight.Name(r[1]), cmp.Or(append(logSettings[strings.ToLower(r[0])], "", "nothing")[0], "nothing"))
		}
	}
	if rows, err = s.rows(ctx, followRights); err != nil {
		return sourceFailed(src, err)
	}
	holds := func(names ...string) bool {
		return slices.ContainsFunc(rows, func(r []string) bool { return slices.Contains(names, strings.ToUpper(r[0])) })
	}
	if !holds("REPLICATION SLAVE") || !holds("BINLOG MONITOR", "REPLICATION CLIENT") || !holds("RELOAD") {
		problem("The user may not follow the source: GRANT REPLICATION SLAVE, REPLICATION CLIENT, RELOAD ON *.*, there")
		return nil
	}
	status, err := logStatus(ctx, s)
	if err != nil {
		return sourceFailed(src, err)
	}
	if status["Binlog_Do_DB"] != "" || status["Binlog_Ignore_DB"] != "" {
		problem("The source logs only some of its databases (binlog_do_db, binlog_ignore_db): it can't be followed; use mode dump")
	}
	return nil
}

// logStatus is how far a source's log is, in the words of whichever version it is.
func logStatus(ctx context.Context, s *session) (map[string]string, error) {
	status, err := s.record(ctx, "SHOW MASTER STATUS")
	const syntax = 1064
	if is(err, syntax) {
		status, err = s.record(ctx, "SHOW BINARY LOG STATUS")
	}
	if err == nil && status == nil {
		err = &engine.SourceError{Reason: "The source writes no binary log any more. Begin again once it does."}
	}
	return status, err
}

// unfollowed are a database's tables by what keeps them from being followed: not in InnoDB, with a history of their own, without a primary key; and ours.
const unfollowed = `SELECT
	(SELECT GROUP_CONCAT(TABLE_NAME ORDER BY TABLE_NAME SEPARATOR ', ') FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_TYPE IN ('BASE TABLE', 'SEQUENCE') AND ENGINE <> 'InnoDB'),
	(SELECT GROUP_CONCAT(TABLE_NAME ORDER BY TABLE_NAME SEPARATOR ', ') FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_TYPE = 'SYSTEM VERSIONED'),
	(SELECT GROUP_CONCAT(t.TABLE_NAME ORDER BY t.TABLE_NAME SEPARATOR ', ') FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = ? AND t.TABLE_TYPE = 'BASE TABLE' AND NOT EXISTS
		(SELECT 1 FROM information_schema.STATISTICS i WHERE i.TABLE_SCHEMA = t.TABLE_SCHEMA AND i.TABLE_NAME = t.TABLE_NAME AND i.NON_UNIQUE = 0)),
	(SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = '` + followTable + `')`

// examineFollowed looks at what keeps a database's tables from being followed.
func examineFollowed(ctx context.Context, src engine.Source, s *session, database string, problem func(blocking bool, message string)) error {
	rows, err := s.rows(ctx, unfollowed, database, database, database, database)
	if err != nil {
		return sourceFailed(src, err)
	}
	const columns = 4
	if len(rows) != 1 || len(rows[0]) != columns {
		return errNotMySQL
	}
	r := rows[0]
	if r[0] != "" {
		problem(true, "It has tables that aren't in InnoDB, which can't be followed: "+insight.Said(r[0])+". ALTER TABLE … ENGINE = InnoDB, or use mode dump")
	}
	if r[1] != "" {
		problem(true, "It has system-versioned tables, whose history can't be followed: "+insight.Said(r[1])+". Use mode dump")
	}
	if r[2] != "" {
		problem(false, "Each change of these tables, which have no key, reads all of one here: "+insight.Said(r[2]))
	}
	if r[3] != "0" {
		problem(true, "It has a table "+followTable+", which is ours while a source is followed: give it another name first")
	}
	return nil
}

// shapes are queries for what a source's tables and routines are; with which server it is.
var shapes = []string{
	"SELECT TABLE_NAME, TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? ORDER BY 1",
	"SELECT TABLE_NAME, ORDINAL_POSITION, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME, COLLATION_NAME, EXTRA, GENERATION_EXPRESSION FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? ORDER BY 1, 2",
	"SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, SHA2(ACTION_STATEMENT, 256), SQL_MODE FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? ORDER BY 1",
	"SELECT ROUTINE_TYPE, ROUTINE_NAME, SHA2(ROUTINE_DEFINITION, 256), SQL_MODE FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ? ORDER BY 1, 2",
	"SELECT TABLE_NAME, SHA2(VIEW_DEFINITION, 256) FROM information_schema.VIEWS WHERE TABLE_SCHEMA = ? ORDER BY 1",
	"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_id', 'server_uuid') OR Variable_name = ?",
}

// askFingerprint is a checksum of what a source is beside its rows.
func askFingerprint(ctx context.Context, src engine.Source, s *session, database string) (string, error) {
	sum := sha256.New()
	for _, query := range shapes {
		rows, err := s.rows(ctx, query, database)
		if err != nil {
			return "", sourceFailed(src, err)
		}
		for _, r := range rows {
			fmt.Fprintf(sum, "%q\n", r)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// unchanged reports whether the source is what was copied.
func (f *keepingUp) Unchanged(ctx context.Context) error {
	print, err := askFingerprint(ctx, f.s, f.source, f.importing.d.From)
	if err == nil && print != f.state.fingerprint {
		return &engine.SourceError{Reason: "The source's tables, routines or triggers aren't those any more that were copied, or it is another server: only rows are followed. Begin again."}
	}
	return err
}

// definition is a trigger or an event, which is made at the cutover: until then the source's own do what they do.
type definition struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	SQLMode   string `json:"sql_mode"`
	TimeZone  string `json:"time_zone,omitempty"`
	Collation string `json:"collation"`
	Statement string `json:"statement"`
}

const trigger, scheduled = "TRIGGER", "EVENT"

// make makes it, also where it is already.
func (d definition) make(ctx context.Context, s *session) error {
	zone := "SYSTEM"
	if d.TimeZone != "" {
		zone = d.TimeZone
	}
	return s.exec(ctx, "SET SESSION sql_mode = "+literalText(d.SQLMode), "SET SESSION collation_connection = "+literalText(d.Collation), "SET SESSION time_zone = "+literalText(zone), d.drop(), d.Statement)
}

func (d definition) drop() string { return "DROP " + d.Kind + " IF EXISTS " + identifier(d.Name) }

func parseDefinitions(text string) (all []definition, err error) {
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, engine.ErrUnnoted
	}
	return all, nil
}

// askDefinitions reads a database's triggers and events.
func askDefinitions(ctx context.Context, src engine.Source, s *session, database string) (all []definition, err error) {
	for kind, query := range map[string]string{
		trigger:   "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? ORDER BY EVENT_OBJECT_TABLE, ACTION_ORDER",
		scheduled: "SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA = ? ORDER BY 1",
	} {
		names, err := s.rows(ctx, query, database)
		if err != nil {
			return nil, sourceFailed(src, err)
		}
		for _, name := range names {
			r, err := s.record(ctx, "SHOW CREATE "+kind+" "+identifier(database)+"."+identifier(name[0]))
			if err != nil {
				return nil, sourceFailed(src, err)
			}
			statement := r["SQL Original Statement"]
			if kind == scheduled {
				statement = r["Create Event"]
			}
			if statement == "" {
				return nil, &engine.SourceError{Reason: "The user may not read how the source's " + strings.ToLower(kind) + " " + insight.Said(name[0]) + " is made: GRANT TRIGGER, EVENT, there"}
			}
			all = append(all, definition{
				Kind: kind, Name: name[0], SQLMode: r["sql_mode"], TimeZone: r["time_zone"], Collation: r["collation_connection"], Statement: migration.WithoutDefiner(statement),
			})
		}
	}
	slices.SortStableFunc(all, func(a, b definition) int { return strings.Compare(b.Kind, a.Kind) }) // triggers first
	return all, nil
}

// began is how a dump says from where on a source is followed.
var began = regexp.MustCompile(`^-- CHANGE (?:MASTER|REPLICATION SOURCE) TO (?:MASTER|SOURCE)_LOG_FILE='([^']+)', (?:MASTER|SOURCE)_LOG_POS=(\d+);`)

// placed passes a dump on, and learns from where on its source is to be followed.
func placed(dump io.Reader, p *binlogPosition) io.Reader {
	return migration.Lines(dump, func(line []byte) {
		if found := began.FindSubmatch(line); found != nil && p.at == 0 {
			if at, err := parseBinlogPosition(string(found[1]), string(found[2])); err == nil {
				*p = at
			}
		}
	})
}

// leaveToFollow notes, in the target, from where on the source is to be followed, and what is to be done at the cutover.
func (i *importing) leaveToFollow(ctx context.Context, d *Driver, source *session, fingerprint string) error {
	if i.from.at == 0 {
		return &engine.SourceError{Reason: "The source doesn't say where its log is: it can't be followed."}
	}
	opening, err := askDefinitions(ctx, i.s, source, i.d.From)
	if err != nil {
		return err
	}
	now, err := askFingerprint(ctx, i.s, source, i.d.From)
	if err != nil {
		return err
	}
	if now != fingerprint {
		return &engine.SourceError{Reason: "The source's tables, routines or triggers were changed while they were copied. Begin again."}
	}
	s, err := d.root(ctx, i.n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.exec(ctx, "USE "+identifier(i.d.To)); err != nil {
		return openFailed(err)
	}
	for _, made := range opening { // what can't be done at the cutover is better known now
		if err := made.make(ctx, s); err != nil {
			return openFailed(err)
		}
		if err := s.exec(ctx, made.drop()); err != nil {
			return openFailed(err)
		}
	}
	text, err := json.Marshal(opening)
	if err != nil {
		return fmt.Errorf("note what is to be done at the cutover: %w", err)
	}
	err = s.exec(ctx, "CREATE TABLE "+followTable+" (slot VARCHAR(64) CHARACTER SET ascii NOT NULL PRIMARY KEY, file VARCHAR(255) NOT NULL, at BIGINT UNSIGNED NOT NULL, noted DATETIME(6) NOT NULL, "+
		"fingerprint VARCHAR(64) NOT NULL, opened TINYINT NOT NULL, opening LONGTEXT NOT NULL) ENGINE = InnoDB CHARACTER SET utf8mb4",
		"INSERT INTO "+followTable+" VALUES ("+literalText(i.d.Slot)+", "+literalText(i.from.file)+fmt.Sprintf(", %d, UTC_TIMESTAMP(6) - INTERVAL %d SECOND, ", i.from.at, int(time.Since(i.began).Seconds()))+literalText(fingerprint)+", 0, "+literalText(string(text))+")")
	if err != nil {
		return openFailed(err)
	}
	return nil
}

// openFailed is what the target says of what it is to make.
func openFailed(err error) error {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	switch {
	case !ok:
		return fmt.Errorf("make what follows rows: %w", err)
	case is(err, errReadOnly, errReadOnlyTables, errDeadlock, errLockWaitTimeout, errShutdown, errConnectionMD):
		return &engine.SourceError{Reason: "The database takes no changes now: " + insight.Said(refused.Message), Passing: true}
	}
	return &engine.SourceError{Reason: "The database refuses what comes from the source: " + insight.Said(refused.Message)}
}

// shownBytes is something that a source has sent, as people are shown it.
func shownBytes(text []byte) string {
	const most = 200
	shown := insight.Said(string(text[:min(len(text), most)]))
	if len(text) > most {
		shown += "…"
	}
	return shown
}
