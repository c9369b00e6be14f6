package postgresql

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// refused reports whether the server said that a privilege is missing.
func refused(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return false
	}
	// From 17 on ALTER SYSTEM is switched off for everybody.
	return pgErr.Code == "42501" || pgErr.Code == "0A000" && strings.Contains(pgErr.Message, "ALTER SYSTEM")
}

// intact is what no attempt may change: who is powerful, and which files are there.
func intact(t *testing.T, s *enginetest.Server) (look func(t *testing.T)) {
	t.Helper()
	conn, err := asOurs(t.Context(), s.Node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSoon(context.Background(), conn) })
	queries := map[string]string{
		"powerful roles": `SELECT coalesce(string_agg(rolname, ' '), 'none') FROM pg_roles
			WHERE rolname <> 'steward' AND (rolsuper OR rolreplication OR rolbypassrls)`,
		"members of predefined roles": `SELECT coalesce(string_agg(m.roleid::regrole || ' to ' || m.member::regrole, ' '), 'none')
			FROM pg_auth_members m WHERE m.roleid::regrole::text IN ('pg_execute_server_program', 'pg_read_server_files',
				'pg_write_server_files', 'pg_signal_backend', 'pg_read_all_data', 'pg_write_all_data', 'pg_checkpoint',
				'pg_create_subscription', 'steward') AND m.member::regrole::text <> 'pg_monitor'`,
		"settings of others": `SELECT coalesce(string_agg(s::text, ' '), 'none') FROM pg_db_role_setting s
			WHERE setrole = 0 AND setdatabase = 0 AND setconfig <> '{log_min_messages=` + quiet + `}'
				OR setrole = 'steward'::regrole AND EXISTS (SELECT FROM unnest(setconfig) AS g WHERE g NOT IN ('search_path=pg_catalog', 'pgaudit.log=none', 'default_transaction_read_only=off') AND g NOT LIKE 'steward.pinned=%')
				OR setdatabase IN (SELECT oid FROM pg_database WHERE datdba = 'steward'::regrole)`,
		"event triggers":             `SELECT coalesce(string_agg(evtname, ' '), 'none') FROM pg_event_trigger`,
		"slots":                      `SELECT coalesce(string_agg(slot_name, ' '), 'none') FROM pg_replication_slots`,
		"subscriptions, tablespaces": `SELECT CASE WHEN (SELECT count(*) FROM pg_subscription) + (SELECT count(*) FROM pg_tablespace) = 2 THEN 'none' ELSE 'some' END`,
	}
	whats := slices.Sorted(maps.Keys(queries))
	var columns []string
	for _, what := range whats {
		columns = append(columns, "("+queries[what]+")")
	}
	return func(t *testing.T) {
		t.Helper()
		row, err := queryOne(t.Context(), conn, "SELECT "+strings.Join(columns, ", "))
		if err != nil {
			t.Fatalf("look for %s: %v", strings.Join(whats, ", "), err)
		}
		for i, what := range whats {
			if row[i] != "none" {
				t.Errorf("%s: %s", what, row[i])
			}
		}
		files, err := os.ReadDir(s.Node.Tmp)
		if err != nil || len(files) > 0 {
			t.Errorf("files outside the data folder: %v, %v", files, err)
		}
	}
}

func before16(inst engine.Installation) bool {
	major, err := majorOf(inst)
	return err == nil && major < 16
}

func since(first int) func(engine.Installation) bool {
	return func(inst engine.Installation) bool {
		major, err := majorOf(inst)
		return err == nil && major >= first
	}
}

func attempts() []enginetest.Attempt {
	var all []enginetest.Attempt
	all = append(all, simple("host", hostAttempts)...)
	all = append(all, simple("power", powerAttempts)...)
	all = append(all, simple("server", serverAttempts)...)
	all = append(all, simple("replication", replicationAttempts)...)
	all = append(all, simple("secrets", secretAttempts)...)
	all = append(all, simple("databases", databaseAttempts)...)
	all = append(all, untrusted()...)
	all = append(all, specialAttempts()...)
	return append(all, procedureAttempts()...)
}

// simple makes attempts of single statements that must be refused.
func simple(area string, statements []string) []enginetest.Attempt {
	var all []enginetest.Attempt
	for _, q := range statements {
		all = append(all, enginetest.Attempt{Name: area + ": " + q, SQL: []string{q}})
	}
	return all
}

var hostAttempts = []string{
	`COPY (SELECT 1) TO PROGRAM 'touch {{tmp}}/owned'`,
	`COPY pg_class FROM PROGRAM 'id'`,
	`COPY (SELECT 1) TO '{{tmp}}/owned'`,
	`COPY pg_class FROM '/etc/passwd'`,
	`SELECT pg_read_file('/etc/passwd')`,
	`SELECT pg_read_file('PG_VERSION')`,
	`SELECT pg_read_binary_file('/etc/passwd')`,
	`SELECT pg_stat_file('/etc/passwd')`,
	`SELECT pg_ls_dir('/')`,
	`SELECT pg_ls_waldir()`,
	`SELECT pg_ls_logdir()`,
	`SELECT pg_ls_tmpdir()`,
	`SELECT lo_import('/etc/passwd')`,
	`SELECT lo_export(1, '{{tmp}}/owned')`,
	`CREATE TABLESPACE outside LOCATION '{{tmp}}'`,
	`LOAD '{{tmp}}/evil.so'`,
	`LOAD '$libdir/dblink'`,
	`CREATE FUNCTION system(cstring) RETURNS int AS '/lib/x86_64-linux-gnu/libc.so.6', 'system' LANGUAGE c STRICT`,
	`CREATE FUNCTION raw(int) RETURNS int AS 'int4inc' LANGUAGE internal`,
	`CREATE FUNCTION leak(int) RETURNS boolean LANGUAGE sql LEAKPROOF AS 'SELECT true'`,
	`CREATE LANGUAGE evil HANDLER plpgsql_call_handler`,
	`CREATE ACCESS METHOD evil TYPE INDEX HANDLER bthandler`,
	`CREATE FOREIGN DATA WRAPPER evil`,
	`CREATE TYPE evil (INPUT = int4in, OUTPUT = int4out)`,
	`CREATE TEXT SEARCH TEMPLATE evil (LEXIZE = dsimple_lexize)`,
	`CREATE TEXT SEARCH PARSER evil (START = prsd_start, GETTOKEN = prsd_nexttoken, END = prsd_end, LEXTYPES = prsd_lextype)`,
	`CREATE OPERATOR CLASS evil DEFAULT FOR TYPE int4 USING btree AS OPERATOR 1 <`,
	`CREATE EVENT TRIGGER evil ON ddl_command_end EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
}

var powerAttempts = []string{
	`SET SESSION AUTHORIZATION steward`,
	`SET ROLE steward`,
	`SET ROLE pg_execute_server_program`,
	`GRANT pg_execute_server_program TO dbadmin`,
	`GRANT pg_read_server_files TO dbadmin`,
	`GRANT pg_write_server_files TO dbadmin`,
	`GRANT pg_signal_backend TO dbadmin`,
	`GRANT pg_monitor TO dbadmin`,
	`GRANT steward TO dbadmin`,
	`ALTER ROLE dbadmin SUPERUSER`,
	`ALTER ROLE dbadmin REPLICATION`,
	`ALTER ROLE dbadmin BYPASSRLS`,
	`CREATE ROLE evil SUPERUSER`,
	`CREATE ROLE evil REPLICATION`,
	`CREATE ROLE evil BYPASSRLS`,
	`CREATE ROLE evil IN ROLE pg_execute_server_program`,
	`CREATE ROLE evil ROLE dbadmin IN ROLE steward`,
	`ALTER ROLE steward PASSWORD 'evil'`,
	`ALTER ROLE steward NOLOGIN`,
	`ALTER ROLE steward VALID UNTIL '2000-01-01'`,
	`ALTER ROLE steward SET search_path = public`,
	`ALTER ROLE steward RENAME TO evil`,
	`ALTER ROLE ALL SET search_path = public`,
	`COMMENT ON ROLE steward IS 'made by steward.create_user'`,
	`COMMENT ON ROLE dbadmin IS 'made by steward.create_user'`,
	`DROP ROLE steward`,
	`REASSIGN OWNED BY steward TO dbadmin`,
	`ALTER DEFAULT PRIVILEGES FOR ROLE steward GRANT ALL ON TABLES TO dbadmin`,
	`CREATE SCHEMA evil AUTHORIZATION steward`,
	`CREATE FUNCTION pg_catalog.evil() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
	`CREATE TABLE information_schema.evil (v int)`,
	`CREATE TRIGGER evil BEFORE UPDATE ON pg_class FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`,
	`UPDATE pg_authid SET rolsuper = true WHERE rolname = 'dbadmin'`,
	`UPDATE pg_proc SET proowner = 10`,
	`DELETE FROM pg_auth_members`,
	`DROP EXTENSION plpgsql`,
}

var serverAttempts = []string{
	`ALTER SYSTEM SET archive_command = 'touch {{tmp}}/owned'`,
	`ALTER SYSTEM SET ssl = off`,
	`ALTER SYSTEM RESET ALL`,
	`SELECT pg_reload_conf()`,
	`SELECT pg_rotate_logfile()`,
	`SELECT pg_switch_wal()`,
	`SELECT pg_create_restore_point('evil')`,
	`SELECT pg_promote()`,
	`SELECT pg_wal_replay_pause()`,
	`SELECT pg_stat_reset()`,
	`SET log_statement = 'all'`,
	`SET log_min_messages = 'panic'`,
	`SET log_min_error_statement = 'debug1'`,
	`SET log_error_verbosity = 'verbose'`,
	`SET log_min_duration_statement = 0`,
	`SET session_preload_libraries = '{{tmp}}/evil'`,
	`ALTER ROLE dbadmin SET session_preload_libraries = '{{tmp}}/evil'`,
	`ALTER DATABASE defaultdb SET session_preload_libraries = '{{tmp}}/evil'`,
	`SET dynamic_library_path = '{{tmp}}'`,
	`SET temp_file_limit = -1`,
	`ALTER ROLE dbadmin SET temp_file_limit = -1`,
	`ALTER DATABASE defaultdb SET temp_file_limit = -1`,
	`SET session_replication_role = replica`,
	`SET lo_compat_privileges = on`,
	`SET allow_system_table_mods = on`,
	`SET zero_damaged_pages = on`,
	`SET ignore_checksum_failure = on`,
	`CREATE FUNCTION evil() RETURNS int LANGUAGE sql SET log_statement = 'all' AS 'SELECT 1'`,
}

var replicationAttempts = []string{
	`SELECT pg_create_physical_replication_slot('evil')`,
	`SELECT pg_create_logical_replication_slot('evil', 'test_decoding')`,
	`SELECT pg_create_logical_replication_slot('evil', '{{tmp}}/evil')`,
	`SELECT pg_replication_origin_create('evil')`,
	`SELECT pg_replication_origin_session_setup('evil')`,
	`CREATE SUBSCRIPTION evil CONNECTION 'host={{tmp}} dbname=postgres' PUBLICATION evil WITH (connect = false)`,
	`CREATE PUBLICATION evil FOR ALL TABLES`,
}

var secretAttempts = []string{
	`SELECT rolpassword FROM pg_authid`,
	`SELECT passwd FROM pg_shadow`,
	`SELECT * FROM pg_hba_file_rules`,
	`SELECT * FROM pg_file_settings`,
	`SELECT umoptions FROM pg_user_mapping`,
	`SELECT subconninfo FROM pg_subscription`,
	`SHOW data_directory`,
	`SHOW config_file`,
	`SHOW hba_file`,
	`SHOW unix_socket_directories`,
	`SHOW primary_conninfo`,
}

var databaseAttempts = []string{
	`ALTER DATABASE postgres SET search_path = public`,
	`ALTER DATABASE postgres OWNER TO dbadmin`,
	`ALTER DATABASE template1 RENAME TO evil`,
	`ALTER DATABASE defaultdb OWNER TO steward`,
	`DROP DATABASE postgres`,
	`DROP DATABASE template1`,
	`CREATE DATABASE evil TEMPLATE postgres`,
	`CREATE DATABASE evil OWNER steward`,
}

// untrusted are the extensions that reach the host or other servers. An
// installation that doesn't bring one refuses with another error.
func untrusted() []enginetest.Attempt {
	var all []enginetest.Attempt
	for _, name := range []string{
		"dblink", "postgres_fdw", "file_fdw", "adminpack", "pg_stat_statements", "pageinspect", "pg_buffercache",
		"pg_surgery", "pg_visibility", "pg_walinspect", "amcheck", "auto_explain", "plperlu", "plpython3u", "pltclu",
	} {
		all = append(all, enginetest.Attempt{
			Name: "extension: " + name, SQL: []string{"CREATE EXTENSION " + name},
			After: func(t *testing.T, s *enginetest.Server, last error) {
				if !refused(last) && (last == nil || !strings.Contains(last.Error(), "0A000") && !strings.Contains(last.Error(), "58P01")) {
					t.Errorf("CREATE EXTENSION %s: %v", name, last)
				}
				if got := s.Text(t, "SELECT count(*) FROM pg_extension WHERE extname = '"+name+"'"); got != "0" {
					t.Errorf("extension %s is there", name)
				}
			},
		})
	}
	return all
}

// plant makes operators and functions in `public` that turn whoever calls them
// into dbadmin's accomplice, and lets every session of the database find them first.
var plant = []string{
	`CREATE TABLE public.caught (who text)`,
	`GRANT ALL ON public.caught TO PUBLIC`,
	`CREATE FUNCTION public.evil_eq(a name, b name) RETURNS boolean LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.caught VALUES (current_user); ALTER ROLE dbadmin SUPERUSER; RETURN true; END$$`,
	`CREATE FUNCTION public.evil_text(a text, b text) RETURNS boolean LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.caught VALUES (current_user); ALTER ROLE dbadmin SUPERUSER; RETURN true; END$$`,
	`CREATE FUNCTION public.count(bigint) RETURNS bigint LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.caught VALUES (current_user); ALTER ROLE dbadmin SUPERUSER; RETURN 1; END$$`,
	`CREATE FUNCTION public.current_setting(varchar) RETURNS text LANGUAGE plpgsql AS
		$$BEGIN INSERT INTO public.caught VALUES (current_user); ALTER ROLE dbadmin SUPERUSER; RETURN ''; END$$`,
	`CREATE OPERATOR public.= (LEFTARG = name, RIGHTARG = name, FUNCTION = public.evil_eq)`,
	`CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.evil_text)`,
	`CREATE OPERATOR public.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.evil_text)`,
	`CREATE VIEW public.pg_stat_activity AS SELECT * FROM pg_catalog.pg_stat_activity`,
	`ALTER DATABASE defaultdb SET search_path = public, pg_catalog`,
	`ALTER ROLE dbadmin SET search_path = public, pg_catalog`,
	`ALTER DATABASE defaultdb SET default_transaction_read_only = off`,
}

func specialAttempts() []enginetest.Attempt {
	return []enginetest.Attempt{
		{Name: "connect to postgres", Database: "postgres", SQL: []string{"SELECT 1"}, Refusal: "42501"},
		{Name: "connect to template1", Database: "template1", SQL: []string{"SELECT 1"}, Refusal: "42501"},
		{Name: "connect to template0", Database: "template0", SQL: []string{"SELECT 1"}, Refusal: "55000"},
		{Name: "read all data (14 and later)", Only: since(14), SQL: []string{"GRANT pg_read_all_data TO dbadmin"}},
		{Name: "checkpoint role (15 and later)", Only: since(15), SQL: []string{"GRANT pg_checkpoint TO dbadmin"}},
		{Name: "subscription role (16 and later)", Only: since(16), SQL: []string{"GRANT pg_create_subscription TO dbadmin"}},
		{Name: "checkpoint", SQL: []string{"CHECKPOINT"}},
		{Name: "CREATEROLE before 16", Only: before16, SQL: []string{"CREATE ROLE evil"}},
		{Name: "CREATEROLE for itself before 16", Only: before16, SQL: []string{"ALTER ROLE dbadmin CREATEROLE"}},
		{
			Name: "CREATEROLE chain (16 and later)", Only: since(16),
			SQL: []string{"CREATE ROLE mallory CREATEROLE CREATEDB", "GRANT mallory TO dbadmin", "SET ROLE mallory", "GRANT pg_write_server_files TO mallory"},
		},
		{
			Name: "CREATEROLE chain to our account (16 and later)", Only: since(16),
			SQL: []string{"CREATE ROLE mallory2 CREATEROLE", "SET ROLE mallory2", "ALTER ROLE steward PASSWORD 'evil'"},
		},
		{
			Name: "granting oneself a function",
			SQL:  []string{"GRANT EXECUTE ON FUNCTION pg_read_file(text) TO dbadmin", "SELECT pg_read_file('/etc/passwd')"},
		},
		{
			Name: "security definer chain",
			SQL: []string{
				"CREATE FUNCTION chain() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT pg_read_file('/etc/passwd')$$",
				"ALTER FUNCTION chain() OWNER TO steward",
			},
		},
		{
			Name: "security definer chain runs as its owner",
			SQL: []string{
				"CREATE FUNCTION chain2() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$SELECT pg_read_file('/etc/passwd')$$",
				"SELECT chain2()",
			},
		},
		{
			Name: "view owned by our account",
			SQL:  []string{"CREATE VIEW lent AS SELECT * FROM pg_authid", "ALTER VIEW lent OWNER TO steward"},
		},
		{
			Name: "large object as another's file",
			SQL:  []string{"SELECT lo_creat(-1)", "SELECT lo_export((SELECT max(oid) FROM pg_largeobject_metadata), '{{tmp}}/owned')"},
		},
		{
			Name: "dictionary file outside", Refusal: "invalid text search configuration file name",
			SQL: []string{"CREATE TEXT SEARCH DICTIONARY evil (TEMPLATE = simple, STOPWORDS = '../../../../../etc/passwd')"},
		},
		{
			Name: "external entity in XML",
			SQL: []string{
				`CREATE TABLE IF NOT EXISTS entity (v text)`,
				`INSERT INTO entity SELECT xmlparse(document '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>')::text`,
			},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				if got := s.Text(t, "SELECT count(*) FROM entity WHERE v LIKE '%root:%'"); got != "0" {
					t.Error("the server read a file for an XML entity")
				}
			},
		},
		{Name: "read database search_path trap", SQL: plant, Allowed: true, After: springTraps},
		{
			Name: "trusted extensions meet planted objects",
			SQL: []string{
				"CREATE FUNCTION public.citext_eq(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN ALTER ROLE dbadmin SUPERUSER; RETURN true; END$$",
				"CREATE FUNCTION public.hstore_version_diag(text) RETURNS int LANGUAGE plpgsql AS $$BEGIN ALTER ROLE dbadmin SUPERUSER; RETURN 1; END$$",
				"CREATE EXTENSION citext", "CREATE EXTENSION hstore", "CREATE EXTENSION pgcrypto", `CREATE EXTENSION "uuid-ossp"`,
				"CREATE EXTENSION intarray", "CREATE EXTENSION ltree", "CREATE EXTENSION unaccent",
			},
			After: func(*testing.T, *enginetest.Server, error) {}, // intact looks
		},
		{
			Name: "index function waits for maintenance",
			SQL: []string{
				"CREATE TABLE bait (v int)", "INSERT INTO bait SELECT generate_series(1, 1000)",
				`CREATE FUNCTION hook(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS
					$$BEGIN IF current_user = 'steward' OR session_user = 'steward' THEN ALTER ROLE dbadmin SUPERUSER; END IF; RETURN $1; END$$`,
				"CREATE INDEX ON bait (hook(v))", "UPDATE bait SET v = v + 1", "ANALYZE bait", "REINDEX TABLE bait",
			},
			Allowed: true,
		},
		{
			Name: "library from a folder of the customer's", Allowed: true,
			SQL: []string{"ALTER ROLE dbadmin SET local_preload_libraries = '{{tmp}}/evil'"},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				if err := s.TryLogin(t, s.Login()); !refused(err) {
					t.Errorf("login with a library outside: %v", err)
				}
				if err := New().SetRootPassword(t.Context(), s.Node); err != nil {
					t.Fatal(err)
				}
				if err := s.TryLogin(t, s.Login()); err != nil {
					t.Errorf("login after a reset: %v", err)
				}
			},
		},
	}
}

// springTraps does everything that steward does on a running server, in the
// database where the traps are too.
func springTraps(t *testing.T, s *enginetest.Server, _ error) {
	d, ctx := New(), t.Context()
	for what, call := range map[string]func() error{
		"ping":          func() error { return d.Ping(ctx, s.Node) },
		"bootstrap":     func() error { return d.Bootstrap(ctx, s.Node) },
		"root password": func() error { return d.SetRootPassword(ctx, s.Node) },
		"verify":        func() error { return d.VerifyRootPassword(ctx, s.Node) },
		"reload":        func() error { _, err := d.Reload(ctx, s.Node); return err },
		"read-only":     func() error { return d.SetReadOnly(ctx, s.Node, false) },
		"version":       func() error { _, err := d.Version(ctx, s.Node); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	conn, err := connect(ctx, login{
		host: s.Node.Run, port: s.Node.Listen.Port(), user: adminRole,
		password: s.Node.AdminPassword, database: firstDatabase, parameters: ownParameters(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, q := range []string{
		"SELECT count(1::bigint), current_setting('port'::varchar) FROM pg_stat_activity WHERE usename = 'x' AND application_name = 'y'::text",
		"SELECT 'a'::name = 'b'::name, 'a'::text = 'b'::text, 'a'::text <> 'b'::text",
	} {
		if _, err := query(ctx, conn, q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	rows, err := query(ctx, conn, "SELECT current_setting('search_path'), (SELECT count(*) FROM public.caught)")
	if err != nil {
		t.Fatal(err)
	}
	if rows[0][0] != "pg_catalog" || rows[0][1] != "0" {
		t.Errorf("search path is %q and the traps caught %s", rows[0][0], rows[0][1])
	}
	s.Exec(t, "ALTER DATABASE defaultdb RESET ALL", "ALTER ROLE dbadmin RESET ALL")
}
