package postgresql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/engine/enginetest"
	"steward/internal/testdir"
)

func lockoutChecks() []enginetest.Check {
	return []enginetest.Check{
		{Name: "extensions that we make", Run: vettedExtensions},
		{Name: "extensions that are loaded", Run: loadedExtensions},
		{Name: "who locked themselves out logs in again after a reset", Run: lockedOut},
		enginetest.Sharing("what a customer does to a server of theirs",
			enginetest.Part{Name: "extensions in our way", Run: extensionsMeetOurs},
			enginetest.Part{Name: "a reset leaves settings that lock nobody out", Run: resetKeepsSettings},
			enginetest.Part{Name: "our sessions in a customer's database have none of its settings", Run: settingsStayOut},
			enginetest.Part{Name: "open transactions don't hold a reset up", Run: resetInsists},
			enginetest.Part{Name: "a reset ends the sessions of whoever had the password", Run: resetEndsSessions},
			enginetest.Part{Name: "an index that hangs on purpose holds up no other", Run: hostileIndex},
			enginetest.Part{Name: "check in a database with hostile defaults", Run: hostileDefaults},
			enginetest.Part{Name: "check looks into indexes", Run: indexDamage},
			enginetest.Part{Name: "a meter measures among enemies", Run: measuresAmongEnemies},
		),
	}
}

// lockouts are what customers do to themselves, in a database beside defaultdb.
var lockouts = map[string][]string{
	"a library that isn't there, for the database": {`ALTER DATABASE defaultdb SET local_preload_libraries = 'nonexist'`},
	"a library that isn't there, for the role":     {`ALTER ROLE dbadmin SET local_preload_libraries = 'nonexist'`},
	"a library that isn't there, for both":         {`ALTER ROLE dbadmin IN DATABASE defaultdb SET local_preload_libraries = 'nonexist'`},
	"a library in every database": {
		`ALTER DATABASE defaultdb SET local_preload_libraries = 'nonexist'`,
		`ALTER DATABASE other SET local_preload_libraries = 'nonexist'`,
	},
	"a role":             {`ALTER DATABASE defaultdb SET role = 'pg_monitor'`, `ALTER ROLE dbadmin SET role = 'nobody'`},
	"an account":         {`ALTER DATABASE defaultdb SET session_authorization = 'dbadmin'`},
	"a search path":      {`ALTER DATABASE defaultdb SET search_path = 'nowhere'`},
	"read-only sessions": {`ALTER DATABASE defaultdb SET default_transaction_read_only = on`},
	"an encoding":        {`ALTER DATABASE defaultdb SET client_encoding = 'MULE_INTERNAL'`},
	"time-outs": {
		`ALTER DATABASE defaultdb SET statement_timeout = '1ms'`,
		`ALTER DATABASE defaultdb SET lock_timeout = 1`,
		`ALTER DATABASE defaultdb SET idle_in_transaction_session_timeout = '1 ms'`,
		`ALTER DATABASE defaultdb SET idle_session_timeout = 1`,
		`ALTER DATABASE defaultdb SET transaction_timeout = '0.001s'`,
		`ALTER DATABASE defaultdb SET tcp_user_timeout = 1`,
	},
	"time-outs of the role": {`ALTER ROLE dbadmin SET statement_timeout = 1`, `ALTER ROLE dbadmin SET idle_session_timeout = '900us'`},
	"no connections":        {`ALTER DATABASE defaultdb CONNECTION LIMIT 0`},
	"no connections anywhere": {
		`ALTER DATABASE other CONNECTION LIMIT 0`, `ALTER DATABASE defaultdb CONNECTION LIMIT 0`,
	},
	"a database closed":              {`ALTER DATABASE defaultdb ALLOW_CONNECTIONS false`},
	"a database closed to its owner": {`REVOKE ALL ON DATABASE defaultdb FROM PUBLIC, dbadmin`},
	"a database that is a template":  {`ALTER DATABASE defaultdb IS_TEMPLATE true`},
	"a database renamed":             {`ALTER DATABASE defaultdb RENAME TO kept`},
	"a database dropped":             {`DROP DATABASE defaultdb`},
	"the role closed":                {`ALTER ROLE dbadmin NOLOGIN`, `ALTER ROLE dbadmin CONNECTION LIMIT 0`, `ALTER ROLE dbadmin VALID UNTIL '2000-01-01'`, `ALTER ROLE dbadmin RENAME TO gone`},
	"an event trigger": {
		`CREATE FUNCTION stay_out() RETURNS event_trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'out'; END$$`,
		`CREATE EVENT TRIGGER stay_out ON login EXECUTE FUNCTION stay_out()`,
	},
	"all databases closed": {`ALTER DATABASE defaultdb ALLOW_CONNECTIONS false`, `REVOKE ALL ON DATABASE other FROM PUBLIC, dbadmin`},
}

// lockedOut does each of them on one server, all that steward does there, and a reset.
func lockedOut(t *testing.T, b *enginetest.Bench) {
	names := slices.Sorted(maps.Keys(lockouts))
	if !enginetest.Thorough() { // others each time
		testdir.Rand(t, "lockouts").Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:len(names)/5]
	}
	s := b.Started(t)
	for _, what := range names {
		t.Run(what, func(t *testing.T) {
			newDatabases(t, s)
			l := s.Login()
			l.Database = "other"
			db := s.DB(t, l)
			for _, q := range lockouts[what] {
				if _, err := db.ExecContext(t.Context(), q); err != nil {
					t.Log(err) // not everything can be done on every version
				}
			}
			db.Close()
			s.Restart(t) // as a suspended server that is resumed
			serves(t, s)
			s.Node.RootPassword = "let-me-in-7K3m9Q2x-" + strings.ReplaceAll(what, " ", "-")
			if err := b.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
				t.Fatalf("reset: %v", err)
			}
			comesIn(t, s)
		})
	}
}

// newDatabases are defaultdb and other, whatever was there.
func newDatabases(t *testing.T, s *enginetest.Server) {
	t.Helper()
	exec := func(sql string) [][]string {
		t.Helper()
		rows, err := ask(t.Context(), s.Node, sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return rows
	}
	for _, row := range exec("SELECT quote_ident(datname) FROM pg_database WHERE datdba <> 'steward'::regrole") {
		exec("ALTER DATABASE " + row[0] + " IS_TEMPLATE false")
		exec("DROP DATABASE " + row[0] + " WITH (FORCE)")
	}
	exec("CREATE DATABASE defaultdb OWNER dbadmin")
	s.Exec(t, "CREATE TABLE kept (v int)", "CREATE DATABASE other")
}

// serves does what steward does with a server that runs.
func serves(t *testing.T, s *enginetest.Server) {
	t.Helper()
	d, ctx := s.Bench.Driver, t.Context()
	for what, call := range map[string]func() error{
		"ping":      func() error { return d.Ping(ctx, s.Node) },
		"bootstrap": func() error { return d.Bootstrap(ctx, s.Node) },
		"verify":    func() error { return d.VerifyRootPassword(ctx, s.Node) },
		"reload":    func() error { _, err := d.Reload(ctx, s.Node); return err },
		"check":     func() error { return d.Check(ctx, s.Node, enginetest.Unhurried) },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// comesIn logs in, works for longer than a time-out that locks out, and takes a pause.
func comesIn(t *testing.T, s *enginetest.Server) {
	t.Helper()
	names, err := ask(t.Context(), s.Node, "SELECT datname FROM pg_database WHERE datdba <> 'steward'::regrole ORDER BY datname")
	if err != nil || len(names) == 0 {
		t.Fatalf("databases: %v, %v", names, err)
	}
	for _, name := range names {
		l := s.Login()
		l.Database = name[0]
		tx, err := s.DB(t, l).BeginTx(t.Context(), nil)
		if err != nil {
			t.Errorf("log in to %s after a reset: %v", name[0], err)
			continue
		}
		for _, q := range []string{"SELECT pg_sleep(0.05)", "SELECT 1"} {
			if _, err := tx.ExecContext(t.Context(), q); err != nil {
				t.Errorf("%s in %s after a reset: %v", q, name[0], err)
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Errorf("end of a transaction in %s: %v", name[0], err)
		}
	}
}

func resetKeepsSettings(t *testing.T, s *enginetest.Server) {
	s.Exec(t,
		"ALTER ROLE dbadmin SET search_path = mine, public", "ALTER ROLE dbadmin SET statement_timeout = '30s'",
		"ALTER DATABASE defaultdb SET work_mem = '8MB'", "ALTER DATABASE defaultdb SET idle_session_timeout = 0",
		"ALTER DATABASE defaultdb CONNECTION LIMIT 7", "CREATE DATABASE other")
	const look = `SELECT string_agg(array_to_string(setconfig, ' '), ' ' ORDER BY setrole) || (SELECT string_agg(datconnlimit::text, ' ' ORDER BY datname)
		FROM pg_database) FROM pg_db_role_setting`
	before := one(t, s, look)
	if err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	if after := one(t, s, look); after != before {
		t.Errorf("settings were %s and are %s", before, after)
	}
	s.Exec(t, "ALTER ROLE dbadmin RESET ALL", "ALTER DATABASE defaultdb RESET ALL", "ALTER DATABASE defaultdb CONNECTION LIMIT -1", "DROP DATABASE other")
}

// settingsStayOut gives a database every setting that a customer can give it.
func settingsStayOut(t *testing.T, s *enginetest.Server) {
	rows, err := ask(t.Context(), s.Node, `SELECT name, vartype, coalesce(enumvals[1], ''), setting, coalesce(min_val, ''), coalesce(max_val, '')
		FROM pg_settings WHERE context = 'user'`)
	if err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "CREATE TABLE kept (v int PRIMARY KEY)", "INSERT INTO kept SELECT generate_series(1, 100)")
	db := s.DB(t, s.Login())
	given := 0
	for _, row := range rows {
		for _, value := range otherValues(row) {
			q := fmt.Sprintf("ALTER DATABASE defaultdb SET %s = '%s'", row[0], value)
			if _, err := db.ExecContext(t.Context(), q); err == nil {
				given++
				break
			}
		}
	}
	for _, q := range []string{"role = 'pg_monitor'", "role = 'dbadmin'", "session_authorization = 'dbadmin'", "seed = 0.5", "a.b = 'c'", "local_preload_libraries = 'nonexist'"} {
		if _, err := db.ExecContext(t.Context(), "ALTER DATABASE defaultdb SET "+q); err != nil {
			t.Logf("%s: %v", q, err)
		}
	}
	if given < 80 {
		t.Errorf("only %d settings could be given, so this proves little", given)
	}
	conn, err := asAdminIn(t.Context(), s.Node, firstDatabase, ownParameters())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	in, err := query(t.Context(), conn, `SELECT session_user, current_user, current_setting('search_path'),
		(SELECT string_agg(name || ' = ' || setting, ', ') FROM pg_settings WHERE source IN ('database', 'user', 'database user') AND name <> 'a.b')`)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(in[0], "|"); got != "steward|steward|pg_catalog|" {
		t.Errorf("our session has %s", got)
	}
	serves(t, s)
	if _, err := ask(t.Context(), s.Node, "ALTER DATABASE defaultdb RESET ALL"); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "DROP TABLE kept")
}

// otherValues are tries at a value other than a setting has.
func otherValues(row []string) []string {
	kind, enum, now, least, most := row[1], row[2], row[3], row[4], row[5]
	switch kind {
	case "bool":
		if now == "on" {
			return []string{"off"}
		}
		return []string{"on"}
	case "enum":
		return []string{enum}
	case "integer", "real":
		if now != least {
			return []string{least, most}
		}
		return []string{"1", most}
	}
	return []string{"public", "C", "UTC", "LATIN1", "pglz", "md5", "heap"}
}

// resetInsists holds what a reset wants to change in a transaction of a thief's.
func resetInsists(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE DATABASE other", "CREATE TABLE kept (v int)")
	thief := s.Login()
	for what, statements := range map[string][]string{
		"password":   {"ALTER ROLE dbadmin PASSWORD 'the thief''s'"},
		"a setting":  {"ALTER ROLE dbadmin SET statement_timeout = 1"},
		"a database": {"ALTER DATABASE other CONNECTION LIMIT 0"},
		"a comment":  {"COMMENT ON DATABASE other IS 'mine'"},
		"catalogs":   {"LOCK TABLE pg_roles", "LOCK TABLE pg_database IN ACCESS SHARE MODE", "SELECT count(*) FROM pg_db_role_setting"},
	} {
		t.Run(what, func(t *testing.T) {
			db := s.DB(t, thief)
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range statements {
				if _, err := tx.ExecContext(t.Context(), q); err != nil {
					t.Log(err)
					break
				}
			}
			s.Node.RootPassword = "reset-after-" + strings.ReplaceAll(what, " ", "-")
			if err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
				t.Errorf("reset: %v", err)
			}
			if err := tx.Commit(); err == nil {
				t.Error("the thief's transaction commits after the reset")
			}
			if err := s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node); err != nil {
				t.Errorf("the password that was reset: %v", err)
			}
			thief = s.Login()
		})
	}
	t.Run("many at once", func(t *testing.T) {
		stop, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{}, 8)
		for i := range cap(ended) {
			db := s.DB(t, thief)
			go func() { changePasswordFor(stop, db, i); ended <- struct{}{} }()
		}
		s.Node.RootPassword = "reset-in-a-crowd"
		if err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
			t.Errorf("reset: %v", err)
		}
		// With the old password nobody logs in, so all of them end by themselves.
		for range cap(ended) {
			select {
			case <-ended:
			case <-time.After(30 * time.Second):
				t.Fatal("a thief's session lives on after a reset")
			}
		}
		if err := s.Bench.Driver.VerifyRootPassword(t.Context(), s.Node); err != nil {
			t.Errorf("the password that was reset: %v", err)
		}
	})
	s.Exec(t, "DROP DATABASE other WITH (FORCE)", "DROP TABLE kept")
}

// changePasswordFor changes dbadmin's password until it can't log in any more.
func changePasswordFor(ctx context.Context, db *sql.DB, i int) {
	for ctx.Err() == nil {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return
		}
		_, err = tx.ExecContext(ctx, fmt.Sprintf("ALTER ROLE dbadmin PASSWORD 'thief-%d'", i))
		if err == nil && i%2 == 0 {
			time.Sleep(20 * time.Millisecond) // holds the others up
		}
		_ = tx.Rollback()
	}
}

func resetEndsSessions(t *testing.T, s *enginetest.Server) {
	idle, busy := s.DB(t, s.Login()), s.DB(t, s.Login())
	if err := idle.PingContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := busy.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := conn.ExecContext(context.WithoutCancel(t.Context()), "DO $$BEGIN PERFORM pg_sleep(600); ALTER ROLE dbadmin PASSWORD 'back again'; END$$")
		answer <- err
	}()
	s.Node.RootPassword = "reset-and-out-5Hd8Lq"
	if err := s.Bench.Driver.SetRootPassword(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err == nil {
		t.Error("a statement of before the reset ran to its end")
	}
	if got := one(t, s, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'dbadmin'"); got != "0" {
		t.Errorf("%s sessions of dbadmin are left", got)
	}
	if err := s.TryLogin(t, s.Login()); err != nil {
		t.Errorf("login with the new password: %v", err)
	}
}
