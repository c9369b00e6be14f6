package postgresql

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"steward/internal/engine/enginetest"
	"steward/internal/measure"
)

// plantedNames are what the meter's questions call, as a customer would have them be something else.
var plantedNames = []string{
	`CREATE FUNCTION public.sprung(what text) RETURNS text LANGUAGE plpgsql AS $$BEGIN
		INSERT INTO public.traps VALUES (what, current_user); RETURN ''; EXCEPTION WHEN OTHERS THEN RETURN ''; END$$`,
	`CREATE FUNCTION public.pg_relation_size(oid) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM public.sprung('size'); RETURN 1; END$$`,
	`CREATE FUNCTION public.pg_database_size(oid) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM public.sprung('size'); RETURN 1; END$$`,
	`CREATE FUNCTION public.differ(name, name) RETURNS boolean LANGUAGE plpgsql AS $$BEGIN PERFORM public.sprung('operator'); RETURN true; END$$`,
	`CREATE OPERATOR public.<> (LEFTARG = name, RIGHTARG = name, FUNCTION = public.differ)`,
	`CREATE FUNCTION public.plus(integer, bigint) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN PERFORM public.sprung('operator'); RETURN 0; END$$`,
	`CREATE OPERATOR public.+ (LEFTARG = integer, RIGHTARG = bigint, FUNCTION = public.plus)`,
	`CREATE VIEW public.pg_class AS SELECT public.sprung('view') AS relname`,
	`CREATE VIEW public.pg_stat_database AS SELECT public.sprung('view') AS relname`,
	`ALTER DATABASE defaultdb SET search_path = public, pg_catalog`,
	`ALTER DATABASE defaultdb SET statement_timeout = '1ms'`,
	`ALTER DATABASE defaultdb SET default_transaction_isolation = 'serializable'`,
	`ALTER DATABASE defaultdb SET default_transaction_deferrable = on`,
	`ALTER DATABASE defaultdb SET default_transaction_read_only = on`,
	`ALTER DATABASE defaultdb SET extra_float_digits = -15`,
	`ALTER DATABASE defaultdb SET transform_null_equals = on`,
	`ALTER DATABASE defaultdb SET work_mem = '64kB'`,
	`ALTER DATABASE defaultdb SET client_encoding = 'SQL_ASCII'`,
	`ALTER DATABASE defaultdb SET role = 'dbadmin'`,
	`CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
	`CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
}

// measuresAmongEnemies is on one server, resets first: after the traps nothing works there.
func measuresAmongEnemies(t *testing.T, s *enginetest.Server) {
	t.Run("sizes aren't told", func(t *testing.T) { measuresWithoutSizes(t, s) })
	t.Run("statistics are reset", func(t *testing.T) { measuresThroughResets(t, s) })
	t.Run("traps are planted", func(t *testing.T) { measuresDespiteTraps(t, s) })
}

// measuresDespiteTraps has a customer plant functions, operators and views where the meter's names could lead to, and a
// time-out that would end all that we ask.
func measuresDespiteTraps(t *testing.T, s *enginetest.Server) {
	s.Exec(t, append([]string{"CREATE TABLE public.traps (what text, who text)", "GRANT ALL ON public.traps TO PUBLIC"}, plantedNames...)...)
	for _, name := range []string{"latin", "bytes"} {
		login := s.Login()
		login.Database = name
		db := s.DB(t, login)
		for _, q := range []string{"SET client_encoding = 'UTF8'", `CREATE TABLE "größe" AS SELECT generate_series(1, 100) AS v`} {
			if _, err := db.ExecContext(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
	}
	tables, err := s.Bench.Driver.Tables(t.Context(), s.Node, 50)
	if err != nil || len(tables) == 0 {
		t.Errorf("%d tables, %v", len(tables), err)
	}
	for _, name := range []string{"latin", "bytes"} {
		if !slices.ContainsFunc(tables, func(one measure.Table) bool { return one.Database == name && one.Table == "größe" }) {
			t.Errorf("of the database %s: %+v", name, tables)
		}
	}
	m, err := s.Bench.Driver.OpenMeter(t.Context(), s.Node)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := measure.NewReading(time.Now())
	if _, err := m.Measure(t.Context(), &r); err != nil {
		t.Error(err)
	}
	if _, err := m.Families(t.Context()); err != nil {
		t.Error(err)
	}
	rows, err := askIn(t.Context(), s, "SELECT count(*) FROM public.traps")
	if err != nil || rows[0][0] != "0" {
		t.Errorf("%v traps were sprung, %v", rows, err)
	}
}

func askIn(ctx context.Context, s *enginetest.Server, sql string) ([][]string, error) {
	conn, err := asAdminIn(ctx, s.Node, firstDatabase, ownParameters())
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	return query(ctx, conn, sql)
}

// measuresWithoutSizes has the server fail to say how large its databases are, and take its time for it: all else is measured.
func measuresWithoutSizes(t *testing.T, s *enginetest.Server) {
	change := func(statements string) {
		t.Helper()
		conn, err := asOurs(t.Context(), s.Node)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		if _, err := query(t.Context(), conn, statements); err != nil {
			t.Fatal(err)
		}
	}
	change("ALTER FUNCTION pg_catalog.pg_database_size(oid) RENAME TO own_database_size")
	for name, body := range map[string]string{"broken": "RAISE 'broken'", "slow": "PERFORM pg_sleep(600)"} {
		change("CREATE OR REPLACE FUNCTION pg_catalog.pg_database_size(oid) RETURNS bigint LANGUAGE plpgsql AS $$BEGIN " + body + "; RETURN 1; END$$")
		m, err := s.Bench.Driver.OpenMeter(t.Context(), s.Node)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for n := range 3 {
			r := measure.NewReading(time.Now().Add(time.Duration(n) * slowEvery / 2))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := m.Measure(ctx, &r)
			cancel()
			if err != nil || r.Values[measure.Up] != 1 || math.IsNaN(r.Values[measure.TransactionIDAge]) || math.IsNaN(r.Values[measure.Commits]) || !math.IsNaN(r.Values[measure.DatabaseSize]) {
				t.Errorf("%s, reading %d: up %v, age %v, commits %v, size %v, %v", name, n, r.Values[measure.Up], r.Values[measure.TransactionIDAge], r.Values[measure.Commits],
					r.Values[measure.DatabaseSize], err)
			}
		}
	}
	change("DROP FUNCTION pg_catalog.pg_database_size(oid); ALTER FUNCTION pg_catalog.own_database_size(oid) RENAME TO pg_database_size")
}

// measuresThroughResets resets what a customer may and all that we may.
func measuresThroughResets(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE TABLE work AS SELECT generate_series(1, 10000) AS v")
	resets := []string{"SELECT pg_stat_reset()", "SELECT pg_stat_reset_shared('bgwriter')", "SELECT pg_stat_reset_shared('archiver')", "SELECT pg_stat_reset_shared('wal')", "SELECT public.pg_stat_statements_reset()"}
	conn, err := asAdminIn(t.Context(), s.Node, firstDatabase, ownParameters())
	if err != nil {
		t.Fatal(err)
	}
	defer closeSoon(t.Context(), conn)
	if _, err := query(t.Context(), conn, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements SCHEMA public"); err != nil {
		t.Logf("without the statements' statistics: %v", err)
		resets = resets[:len(resets)-1]
	}
	allowed := enginetest.MeasuresThroughResets(t, s, resets, func(ctx context.Context, sql string) error {
		_, err := query(ctx, conn, sql)
		return err
	}, "SELECT count(*) FROM work")
	t.Logf("of a customer's own: %q", allowed)
}
