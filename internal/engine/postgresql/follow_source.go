package postgresql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/insight"
	"steward/internal/migration"
)

// followSchema is where we note, in a database that follows a source, how far it is.
const followSchema = "steward_follow"

// oldestFollowed is the oldest version that tells of TRUNCATE.
const oldestFollowed = 11

// canFollow is what a server needs that is followed, one row.
const canFollow = `SELECT current_setting('server_version_num')::int / 10000, current_setting('wal_level'), pg_is_in_recovery(),
	(SELECT rolsuper OR rolreplication OR EXISTS (SELECT FROM pg_roles g WHERE g.rolname = 'rds_replication' AND pg_has_role(g.oid, 'MEMBER')) FROM pg_roles WHERE rolname = current_user),
	least(current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots), current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication))`

// follows looks at what a server needs that is followed, once for each of several databases.
func (x examination) follows(ctx context.Context, s engine.Source, conn *pgconn.PgConn, databases int) error {
	rows, err := askSource(ctx, s, conn, canFollow)
	if err != nil {
		return err
	}
	const columns = 5
	if len(rows) != 1 || len(rows[0]) != columns {
		return errNotPostgreSQL
	}
	x.database = ""
	r := rows[0]
	if major, err := strconv.Atoi(r[0]); err != nil || major < oldestFollowed {
		x.problem(true, "The source is older than PostgreSQL %d, the oldest that can be followed: use mode dump", oldestFollowed)
	}
	if r[1] != "logical" {
		x.problem(true, "The source's wal_level is %s: set it to logical and start the source again, or use mode dump", insight.Name(shownText(r[1])))
	}
	if r[2] == "t" {
		x.problem(true, "The source is a replica: name its primary")
	}
	if r[3] != "t" {
		x.problem(true, "The user may not follow the source: ALTER ROLE … REPLICATION, there")
	}
	if free, err := strconv.Atoi(r[4]); err != nil || free < databases {
		x.problem(true, "The source has no replication slots or senders left for %d databases: raise max_replication_slots and max_wal_senders there", databases)
	}
	return nil
}

// unfollowed are names of a database's tables, by what keeps them from being followed; and whether the user may make a publication.
const unfollowed = `WITH t AS (SELECT quote_ident(s.nspname) || '.' || quote_ident(c.relname) AS name, c.* FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE c.relkind = 'r' AND c.relpersistence IN ('p', 'u') AND s.nspname !~ '^pg_' AND s.nspname <> 'information_schema'
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'))
	SELECT (SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT name FROM t WHERE relreplident = 'n' OR relreplident = 'd' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisprimary)
			OR relreplident = 'i' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisreplident) ORDER BY 1 LIMIT 10) x),
		(SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT name FROM t WHERE relpersistence = 'u' ORDER BY 1 LIMIT 10) x),
		(SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT name FROM t WHERE NOT pg_has_role(relowner, 'USAGE') ORDER BY 1 LIMIT 10) x),
		(SELECT string_agg(name, ', ' ORDER BY name) FROM (SELECT name FROM t WHERE relreplident = 'f' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = t.oid AND i.indisprimary) ORDER BY 1 LIMIT 10) x),
		has_database_privilege(current_database(), 'CREATE'), (SELECT count(*) FROM pg_namespace WHERE nspname = '` + followSchema + `')`

// followsContent looks at what keeps a database's tables from being followed.
func (x examination) followsContent(ctx context.Context, s engine.Source, conn *pgconn.PgConn) error {
	rows, err := askSource(ctx, s, conn, unfollowed)
	if err != nil {
		return err
	}
	const columns = 6
	if len(rows) != 1 || len(rows[0]) != columns {
		return errNotPostgreSQL
	}
	r := rows[0]
	if r[0] != "" {
		x.problem(true, "It has tables whose rows nothing tells apart: %s. Give them a primary key, or ALTER TABLE … REPLICA IDENTITY FULL, or use mode dump", shownText(r[0]))
	}
	if r[1] != "" {
		x.problem(true, "It has unlogged tables, which can't be followed: %s. ALTER TABLE … SET LOGGED, or use mode dump", shownText(r[1]))
	}
	if r[2] != "" {
		x.problem(true, "The user doesn't own these tables, and so can't publish them: %s", shownText(r[2]))
	}
	if r[3] != "" {
		x.problem(false, "Each change of these tables, which have no primary key, reads all of one here: %s", shownText(r[3]))
	}
	if r[4] != "t" {
		x.problem(true, "The user can't make a publication: GRANT CREATE ON DATABASE, there")
	}
	if r[5] != "0" {
		x.problem(true, "It has a schema "+followSchema+", which is ours while a source is followed: give it another name first")
	}
	return nil
}

// hold has the source keep what is written from a moment on, and returns where that is. What we read of the source from then on is as of that moment. The
// connection that it returns keeps the moment for others, until it is closed.
func (i *importing) hold(ctx context.Context) (conn *pgconn.PgConn, from lsn, err error) {
	if err := release(ctx, i.s, i.source, i.d.Slot); err != nil {
		return nil, 0, err
	}
	all, err := i.tables(ctx)
	if err != nil {
		return nil, 0, err
	}
	publish := "CREATE PUBLICATION " + quoteName(i.d.Slot)
	if len(all) > 0 {
		tables := make([]string, len(all))
		for n, t := range all {
			tables[n] = "ONLY " + t.sql()
		}
		publish += " FOR TABLE " + strings.Join(tables, ", ")
	}
	if _, err := askSource(ctx, i.s, i.source, publish); err != nil {
		return nil, 0, err
	}
	failpoint.Here("postgresql: published")
	if conn, err = atSource(ctx, i.s, i.d.From, replicating(nil)); err != nil {
		return nil, 0, err
	}
	if from, err = i.keep(ctx, conn, all); err != nil {
		closeSoon(ctx, conn)
		return nil, 0, err
	}
	return conn, from, nil
}

// keep makes the slot, and has what we read of the source be as of its beginning.
func (i *importing) keep(ctx context.Context, conn *pgconn.PgConn, published []sourceTable) (from lsn, err error) {
	rows, err := askSource(ctx, i.s, conn, "CREATE_REPLICATION_SLOT "+quoteName(i.d.Slot)+" LOGICAL pgoutput EXPORT_SNAPSHOT")
	if err != nil {
		return 0, err
	}
	failpoint.Here("postgresql: slot made")
	const columns = 4
	if len(rows) != 1 || len(rows[0]) != columns || !snapshotName.MatchString(rows[0][2]) {
		return 0, errNotPostgreSQL
	}
	if from, err = parseLSN(rows[0][1]); err != nil {
		return 0, errNotPostgreSQL
	}
	i.snapshot = rows[0][2]
	if _, err = askSource(ctx, i.s, i.source, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '"+i.snapshot+"'"); err != nil {
		return 0, err
	}
	return from, i.published(ctx, published)
}

// published reports whether the tables that are copied are those that were published before.
func (i *importing) published(ctx context.Context, before []sourceTable) error {
	now, err := i.tables(ctx)
	if err != nil {
		return err
	}
	named := map[string]bool{}
	for _, t := range before {
		named[t.sql()] = true
	}
	for _, t := range now {
		if !named[t.sql()] {
			return fmt.Errorf("the table %s was made meanwhile", t.sql())
		}
	}
	return nil
}

// fingerprint is a checksum of what a source's tables, columns, constraints, triggers, functions, enumerations and extensions are.
const fingerprint = `WITH own AS (SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'), parts (part) AS (
	SELECT concat_ws(' ', s.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, c.relrowsecurity, c.relispartition) FROM pg_class c JOIN own s ON s.oid = c.relnamespace WHERE c.relkind NOT IN ('i', 'I')
	UNION ALL SELECT concat_ws(' ', a.attrelid::regclass, a.attnum, a.attname, a.atttypid::regtype, a.atttypmod, a.attnotnull, a.attidentity) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN own s ON s.oid = c.relnamespace
		WHERE c.relkind NOT IN ('i', 'I') AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL SELECT concat_ws(' ', k.conname, k.contype, k.conrelid::regclass, k.convalidated) FROM pg_constraint k JOIN own s ON s.oid = k.connamespace
	UNION ALL SELECT concat_ws(' ', t.tgname, t.tgrelid::regclass, t.tgfoid::regprocedure, t.tgenabled) FROM pg_trigger t WHERE NOT t.tgisinternal
	UNION ALL SELECT concat_ws(' ', p.oid::regprocedure, md5(p.prosrc)) FROM pg_proc p JOIN own s ON s.oid = p.pronamespace
	UNION ALL SELECT concat_ws(' ', e.enumtypid::regtype, e.enumlabel, e.enumsortorder) FROM pg_enum e
	UNION ALL SELECT concat_ws(' ', extname, extversion) FROM pg_extension)
	SELECT md5(coalesce(string_agg(part, ',' ORDER BY part), '')) FROM parts`

func askFingerprint(ctx context.Context, s engine.Source, conn *pgconn.PgConn) (string, error) {
	rows, err := askSource(ctx, s, conn, fingerprint)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 || len(rows[0]) != 1 || len(rows[0][0]) != 32 {
		return "", errNotPostgreSQL
	}
	return rows[0][0], nil
}

// here is a place in the source's WAL after all that was committed there before; the source gets there without more to write.
const here = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'steward', '')"

func askHere(ctx context.Context, s engine.Source, conn *pgconn.PgConn) (lsn, error) {
	rows, err := askSource(ctx, s, conn, here)
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return 0, errNotPostgreSQL
	}
	at, err := parseLSN(rows[0][0])
	if err != nil {
		return 0, errNotPostgreSQL
	}
	return at, nil
}

// releaseTime bounds how long a source is waited for that is to let go of a slot.
const releaseTime = 20 * time.Second

// release removes a slot and a publication, also when a process that is dead still follows it.
func release(ctx context.Context, s engine.Source, conn *pgconn.PgConn, slot string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	if err := free(ctx, s, conn, slot); err != nil {
		return err
	}
	_, err := askSource(ctx, s, conn, "SET client_min_messages = error; SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = "+quoteText(slot)+"; DROP PUBLICATION IF EXISTS "+quoteName(slot))
	return err
}

// free ends the connection that follows a slot.
func free(ctx context.Context, s engine.Source, conn *pgconn.PgConn, slot string) error {
	for {
		rows, err := askSource(ctx, s, conn, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active AND slot_name = "+quoteText(slot))
		if err != nil || len(rows) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the source's slot is in use: %w", ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Release implements engine.Importer.
func (Driver) Release(ctx context.Context, s engine.Source, d migration.Database) error {
	conn, err := atSource(ctx, s, d.From)
	if err != nil {
		return err
	}
	defer closeSoon(ctx, conn)
	return release(ctx, s, conn, d.Slot)
}

// Leftovers implements engine.Importer.
func (Driver) Leftovers(d migration.Database) string {
	return fmt.Sprintf("SELECT pg_drop_replication_slot('%[1]s'); DROP PUBLICATION %[1]s;", strings.ToLower(d.Slot))
}
