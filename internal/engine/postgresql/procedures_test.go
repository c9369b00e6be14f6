package postgresql

import (
	"strings"
	"testing"

	"steward/internal/engine/enginetest"
)

// procedureAttempts are about the schema `steward` of servers before 16.
func procedureAttempts() []enginetest.Attempt {
	all := []enginetest.Attempt{
		{
			Name: "users are made and used", Allowed: true,
			SQL: []string{
				`CALL steward.create_user('bob', 'it''s "bob"')`,
				`CALL steward.grant_database('bob', 'defaultdb')`,
				`CALL steward.create_user('we"ird ''na;me', 'pw')`,
				`CALL steward.set_password('we"ird ''na;me', $$q'"\$$)`,
				`SET ROLE bob`, `CREATE SCHEMA bobs`, `RESET ROLE`,
				`DROP SCHEMA bobs`,
			},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				for user, password := range map[string]string{"bob": `it's "bob"`, `we"ird 'na;me`: `q'"\`} {
					l := s.Login()
					l.User, l.Password = user, password
					err := s.TryLogin(t, l)
					if may := user == "bob"; may != (err == nil) {
						t.Errorf("login of %s, who may be let into defaultdb: %v: %v", user, may, err)
					}
					if user != "bob" && !refused(err) {
						t.Errorf("login of %s: %v, want the database's refusal, not the password's", user, err)
					}
				}
			},
		},
		{
			Name: "users are not the root", Allowed: true,
			SQL: []string{`CALL steward.create_user('eve', 'pw')`, `CALL steward.grant_database('eve', 'defaultdb')`},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				l := s.Login()
				l.User, l.Password = "eve", "pw"
				db := s.DB(t, l)
				for _, q := range []string{
					`CALL steward.create_user('eve2', 'pw')`, `CALL steward.set_password('bob', 'pw')`, `SET ROLE dbadmin`,
					`SET ROLE bob`, `SELECT steward.is_customers('bob')`, `ALTER ROLE bob PASSWORD 'x'`, `CREATE DATABASE evil`,
				} {
					if _, err := db.ExecContext(t.Context(), q); !refused(err) {
						t.Errorf("eve: %s: %v", q, err)
					}
				}
			},
		},
		{
			Name: "a taken-back database is closed", Allowed: true,
			SQL: []string{`CALL steward.revoke_database('eve', 'defaultdb')`},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				l := s.Login()
				l.User, l.Password = "eve", "pw"
				if err := s.TryLogin(t, l); !refused(err) {
					t.Errorf("eve is let into defaultdb: %v", err)
				}
			},
		},
		{
			Name: "new databases have the procedures", Allowed: true,
			SQL: []string{`CREATE DATABASE "an other"`},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				l := s.Login()
				l.Database = "an other"
				db := s.DB(t, l)
				for _, q := range []string{
					`CALL steward.grant_database('bob', 'an other')`, `CREATE TABLE public.t (v int)`,
					`CALL steward.revoke_database('bob', 'an other')`, `CALL steward.grant_database('bob', 'an other')`,
				} {
					if _, err := db.ExecContext(t.Context(), q); err != nil {
						t.Errorf("%s: %v", q, err)
					}
				}
			},
		},
		{
			Name: "users are dropped, grants and all", Allowed: true,
			SQL: []string{`CALL steward.drop_user('bob')`, `CALL steward.drop_user('eve')`, `CALL steward.drop_user('we"ird ''na;me')`},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				if got := s.Text(t, `SELECT coalesce(string_agg(rolname, ' ' ORDER BY rolname), '') FROM pg_roles WHERE rolname !~ '^pg_'`); got != "dbadmin steward" {
					t.Errorf("roles left: %s", got)
				}
			},
		},
		{
			Name: "procedures can't be passed on", Allowed: true, // a warning, and nothing done
			SQL: []string{`GRANT EXECUTE ON PROCEDURE steward.create_user(text, text) TO PUBLIC`},
			After: func(t *testing.T, s *enginetest.Server, _ error) {
				if got := s.Text(t, `SELECT has_function_privilege('public', 'steward.create_user(text, text)', 'EXECUTE')`); got != "false" {
					t.Error("everybody may call create_user")
				}
			},
		},
		{
			Name: "planted temporary objects aren't found by the procedures",
			SQL: []string{
				`CREATE TEMPORARY VIEW pg_roles AS SELECT 'steward'::name AS rolname, false AS rolsuper, 10::oid AS oid`,
				`CREATE FUNCTION pg_temp.shobj_description(oid, name) RETURNS text LANGUAGE sql AS $$SELECT 'made by steward.create_user'$$`,
				`CREATE FUNCTION pg_temp.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS $$SELECT 'ALTER ROLE dbadmin SUPERUSER'$$`,
				`SET search_path = pg_temp, pg_catalog`,
				`CALL steward.set_password('steward', 'evil')`,
			},
		},
		{
			Name: "settings of the caller don't reach into the procedures", Refusal: "42704",
			SQL: []string{
				`SET standard_conforming_strings = off`, `SET backslash_quote = on`,
				`CALL steward.create_user('zed', E'\\''; ALTER ROLE dbadmin SUPERUSER; --')`,
				`CALL steward.drop_user('zed')`, `SET ROLE zed_is_gone`,
			},
			After: func(t *testing.T, s *enginetest.Server, _ error) {},
		},
	}
	for _, q := range []string{
		`CALL steward.set_password('steward', 'evil')`,
		`CALL steward.set_password('dbadmin', 'evil')`,
		`CALL steward.set_password('pg_monitor', 'evil')`,
		`CALL steward.set_password(NULL, 'evil')`,
		`CALL steward.drop_user('steward')`,
		`CALL steward.drop_user('dbadmin')`,
		`CALL steward.drop_user('pg_read_server_files')`,
		`CALL steward.grant_database('dbadmin', 'postgres')`,
		`CALL steward.grant_database('steward', 'defaultdb')`,
		`SELECT steward.is_customers('bob')`,
		`SELECT steward.demand_customers('bob')`,
		`CREATE FUNCTION steward.evil() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
		`CREATE OR REPLACE PROCEDURE steward.create_user(username text, password text) LANGUAGE sql AS 'SELECT 1'`,
		`ALTER PROCEDURE steward.create_user(text, text) SET search_path = public`,
		`ALTER PROCEDURE steward.create_user(text, text) OWNER TO dbadmin`,
		`DROP SCHEMA steward CASCADE`,
		`ALTER SCHEMA steward RENAME TO evil`,
	} {
		all = append(all, enginetest.Attempt{Name: "procedures: " + q, SQL: []string{q}})
	}
	for name, refusal := range map[string]string{
		"steward": "is reserved", "Steward2": "is reserved", "pg_evil": "is reserved", "PG_evil": "is reserved",
		"postgres": "is reserved", "dbadmin": "is reserved", "public": "is reserved", "all": "is reserved",
		"": "1 to 63 bytes", strings.Repeat("x", 64): "1 to 63 bytes",
	} {
		all = append(all, enginetest.Attempt{
			Name: "procedures: name " + name,
			SQL:  []string{`CALL steward.create_user('` + name + `', 'pw')`}, Refusal: refusal,
		})
	}
	all = append(all,
		enginetest.Attempt{Name: "procedures: no password", SQL: []string{`CALL steward.create_user('nopw', '')`}, Refusal: "password is required"},
		enginetest.Attempt{
			Name: "procedures: others' database", Refusal: "not a database of yours",
			SQL: []string{`CALL steward.create_user('carl', 'pw')`, `CALL steward.grant_database('carl', 'postgres')`},
		},
		enginetest.Attempt{
			Name: "procedures: others' database taken back", Refusal: "not a database of yours",
			SQL: []string{`CALL steward.revoke_database('carl', 'template1')`},
		},
		enginetest.Attempt{Name: "procedures: a name that is SQL", SQL: []string{
			`CALL steward.create_user('x"; ALTER ROLE dbadmin SUPERUSER; --', 'pw''; ALTER ROLE dbadmin SUPERUSER; --')`,
			`CALL steward.drop_user('x"; ALTER ROLE dbadmin SUPERUSER; --')`,
		}, Allowed: true},
	)
	for i := range all {
		all[i].Only = before16
	}
	return all
}
