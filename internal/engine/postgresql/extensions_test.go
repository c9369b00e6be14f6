package postgresql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"steward/internal/engine/enginetest"
	"steward/internal/fault"
)

// trustedExtensions are those that dbadmin may create, those they need included.
const trustedExtensions = `SELECT DISTINCT v.name FROM pg_available_extension_versions v JOIN pg_available_extensions USING (name)
	WHERE v.trusted AND v.version = default_version ORDER BY 1`

// extensionsMeetOurs puts every extension that a customer can create where our
// sessions look for names, and into our own schema: the server lets them, since a
// trusted extension is made with the rights of a superuser. Nothing of it may take
// the place of what our statements name: a function or an operator of the built-in
// ones' name is taken instead of them when it fits built-in types better.
func extensionsMeetOurs(t *testing.T, s *enginetest.Server) {
	rows, err := ask(t.Context(), s.Node, trustedExtensions)
	if err != nil || len(rows) < 15 {
		t.Fatalf("trusted extensions: %v, %v", rows, err)
	}
	schemas := []string{"pg_catalog", "public"}
	if before16(s.Bench.Installation) {
		schemas = append(schemas, "steward")
	}
	s.Exec(t, "CREATE DATABASE other")
	db := s.DB(t, s.Login())
	var made []string
	for _, row := range rows {
		if row[0] != "plpgsql" {
			made = append(made, `"`+row[0]+`"`)
		}
	}
	for _, schema := range schemas {
		there := 0
		for _, row := range rows {
			if _, err := db.ExecContext(t.Context(), `CREATE EXTENSION IF NOT EXISTS "`+row[0]+`" SCHEMA `+schema+` CASCADE`); err != nil {
				t.Logf("%s in %s: %v", row[0], schema, err)
				continue
			}
			there++
		}
		t.Logf("%d extensions are in %s or before it", there, schema)
		theirs, err := lookAt(t.Context(), s, sameNames)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range theirs {
			t.Errorf("our statements may come upon %s", strings.Join(row, " "))
		}
		serves(t, s)
		if _, err := db.ExecContext(t.Context(), "DROP EXTENSION IF EXISTS "+strings.Join(made, ", ")+" CASCADE"); err != nil {
			t.Error(err)
		}
	}
	s.Exec(t, "DROP DATABASE other")
}

// simplyVetted are those that need nothing else, by the builds that the tests have them with.
var simplyVetted = map[string][]string{"debian": {"postgis", "pg_stat_statements"}, "debian-unpacked": {"vector", "pg_stat_statements"}}

// vettedExtensions has us make what demands a superuser, in a database full of what a customer planted for that: nothing of it is run, and the
// extension gives nobody more than they had.
func vettedExtensions(t *testing.T, b *enginetest.Bench) {
	names := simplyVetted[b.Installation.Builder]
	if len(names) == 0 {
		return // other builds have none of them
	}
	s := b.Started(t)
	s.Exec(t, "CREATE DATABASE planted")
	login := s.Login()
	login.Database = "planted"
	db := s.DB(t, login)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec("CREATE TABLE public.caught (who text)")
	exec("GRANT ALL ON public.caught TO PUBLIC")
	exec("CREATE FUNCTION public.evil(text, text) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN true; END$$")
	exec("CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.evil)")
	exec("CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN ''; END$$")
	exec("ALTER DATABASE planted SET search_path = public, pg_catalog")
	exec("CREATE EXTENSION citext SCHEMA pg_catalog")
	exec("CREATE SCHEMA mine")
	e := extensions{s.Node, "planted"}
	for _, name := range names {
		made, err := e.find(t.Context(), name)
		if err != nil || !made.Offered {
			t.Fatalf("%s: %+v, %v: run scripts/setup --build", name, made, err)
		}
		for _, schema := range []string{"mine", "public", "pg_mine"} {
			if named, ok := errors.AsType[*fault.Fault](e.CreateExtension(t.Context(), name, schema)); !ok || named.Field != "schema" {
				t.Errorf("%s in %s: %v", name, schema, named)
			}
		}
		if err := e.CreateExtension(t.Context(), name, ""); err != nil {
			t.Fatal(err)
		}
		if named, ok := errors.AsType[*fault.Fault](e.CreateExtension(t.Context(), name, "again")); !ok || named.Field != "name" {
			t.Errorf("%s again: %v", name, named)
		}
		if made, err = e.find(t.Context(), name); err != nil || made.Schema != vetted[name].schema {
			t.Errorf("%+v, %v", made, err)
		}
		rights, err := lookIn(t.Context(), s, "planted", `SELECT p.oid::regprocedure FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid JOIN pg_extension x ON x.oid = d.refobjid
			WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND x.extname = '`+name+`' AND p.prosecdef`)
		if err != nil || len(rights) > 0 {
			t.Errorf("functions of %s run with their owner's rights: %v, %v", name, rights, err)
		}
		schema := vetted[name].schema
		for _, sql := range []string{
			"CREATE TABLE " + schema + ".mine (v int)", "CREATE FUNCTION " + schema + ".f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "DROP EXTENSION " + name, "DROP SCHEMA " + schema + " CASCADE",
			"ALTER EXTENSION " + name + " ADD TABLE public.caught",
		} {
			if _, err := db.ExecContext(t.Context(), sql); !refused(err) {
				t.Errorf("%s: %v", sql, err)
			}
		}
		if err := e.UpdateExtension(t.Context(), name, ""); err != nil {
			t.Error(err)
		}
	}
	if slices.Contains(names, "postgis") {
		placesOnEarth(t, s, db)
	}
	if slices.Contains(names, "vector") {
		exec("CREATE TABLE public.near (v vector.vector(2))")
		exec("INSERT INTO public.near VALUES ('[1,2]'), ('[3,4]')")
		exec("CREATE INDEX ON public.near USING hnsw (v vector.vector_l2_ops)")
	}
	exec("CREATE VIEW public.counted AS SELECT * FROM stat_statements.pg_stat_statements")
	if _, err := db.ExecContext(t.Context(), "SELECT stat_statements.pg_stat_statements_reset()"); !refused(err) {
		t.Errorf("a reset of what is counted: %v", err)
	}
	var ours int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM public.counted WHERE userid <> 'dbadmin'::regrole::oid AND query <> '<insufficient privilege>'").Scan(&ours); err != nil || ours > 0 {
		t.Errorf("%d statements of others are shown, %v", ours, err)
	}
	for _, name := range names {
		if err := e.DropExtension(t.Context(), name, false); !fault.IsKind(err, fault.Precondition) {
			t.Errorf("drop %s, which is needed: %v", name, err)
		}
		if err := e.DropExtension(t.Context(), name, true); err != nil {
			t.Error(err)
		}
		if left, err := lookIn(t.Context(), s, "planted", "SELECT 1 FROM pg_namespace WHERE nspname = '"+vetted[name].schema+"'"); err != nil || len(left) > 0 {
			t.Errorf("the schema %s is left: %v", name, err)
		}
	}
	caught, err := lookIn(t.Context(), s, "planted", "SELECT who FROM public.caught")
	if err != nil || len(caught) > 0 {
		t.Errorf("what was planted ran as %v, %v", caught, err)
	}
	intact(t, s)
	serves(t, s)
}

// placesOnEarth uses PostGIS, and its library's ways to files.
func placesOnEarth(t *testing.T, s *enginetest.Server, db *sql.DB) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	var metres int
	if err := db.QueryRowContext(t.Context(), "SELECT postgis.ST_Distance('POINT(0 0)'::postgis.geography, 'POINT(0 1)'::postgis.geography)::int").Scan(&metres); err != nil || metres != 110574 {
		t.Errorf("a degree of latitude has %d m, %v", metres, err)
	}
	// The library that changes coordinates takes names of files: what is in them isn't shown.
	for _, from := range []string{"+init=/etc/passwd:root", "+proj=longlat +nadgrids=/etc/passwd", "+init=" + s.Node.Data + "/postgresql.auto.conf:1"} {
		var shown string
		err := db.QueryRowContext(t.Context(), "SELECT postgis.ST_AsText(postgis.ST_Transform('POINT(0 0)'::postgis.geometry, $1, '+proj=merc'))", from).Scan(&shown)
		if strings.Contains(fmt.Sprint(shown, err), "bin/") {
			t.Errorf("%s shows %s, %v", from, shown, err)
		}
	}
	exec("CREATE TABLE public.places (at postgis.geometry)")
	exec("INSERT INTO public.places VALUES ('POINT(0 0)'), ('POINT(1 1)')")
	exec("ANALYZE public.places")
	exec("SELECT postgis.ST_EstimatedExtent('public', 'places', 'at')") // which would run with our rights
}

func lookAt(ctx context.Context, s *enginetest.Server, sql string) ([][]string, error) {
	return lookIn(ctx, s, firstDatabase, sql)
}

func lookIn(ctx context.Context, s *enginetest.Server, database, sql string) ([][]string, error) {
	conn, err := asAdminIn(ctx, s.Node, database, ownParameters())
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return query(ctx, conn, sql)
}

// sameNames are functions of a built-in one's name, operators that our statements
// use or that run anything but C, and casts that happen unasked.
const sameNames = `
	SELECT 'function', p.oid::regprocedure::text FROM pg_proc p
	WHERE p.oid >= 16384 AND p.pronamespace = 'pg_catalog'::regnamespace
		AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) a WHERE a >= 16384)
		AND EXISTS (SELECT FROM pg_proc b WHERE b.oid < 16384 AND b.proname = p.proname)
	UNION ALL SELECT 'operator', o.oid::regoperator::text
	FROM pg_operator o JOIN pg_proc p ON p.oid = oprcode JOIN pg_language l ON l.oid = prolang
	WHERE o.oid >= 16384 AND o.oprnamespace = 'pg_catalog'::regnamespace AND oprleft < 16384 AND oprright < 16384
		AND (l.lanname <> 'c' OR oprname IN ('=', '<>', '<', '>', '<=', '>=', '||', '~', '!~', '~~', '!~~') OR oprname = '-' AND oprleft <> 'int4[]'::regtype)
	UNION ALL SELECT 'cast', c.castsource::regtype || ' to ' || c.casttarget::regtype FROM pg_cast c
	WHERE c.oid >= 16384 AND castsource < 16384 AND castcontext = 'i'`
