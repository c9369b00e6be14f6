package postgresql

import (
	"context"
	"strings"
	"testing"

	"steward/internal/engine/enginetest"
)

// trustedExtensions are those that dbadmin may create, those they need included.
const trustedExtensions = `SELECT DISTINCT v.name FROM pg_available_extension_versions v JOIN pg_available_extensions USING (name)
	WHERE v.trusted AND v.version = default_version ORDER BY 1`

// extensionsMeetOurs puts every extension that a customer can create where our
// sessions look for names, and into our own schema: the server lets them, since a
// trusted extension is made with the rights of a superuser. Nothing of it may take
// the place of what our statements name: a function or an operator of the built-in
// ones' name is taken instead of them when it fits built-in types better.
func extensionsMeetOurs(t *testing.T, b *enginetest.Bench) {
	s := b.Started(t)
	rows, err := ask(t.Context(), s.Node, trustedExtensions)
	if err != nil || len(rows) < 15 {
		t.Fatalf("trusted extensions: %v, %v", rows, err)
	}
	schemas := []string{"pg_catalog", "public"}
	if before16(b.Installation) {
		schemas = append(schemas, "steward")
	}
	s.Exec(t, "CREATE DATABASE other")
	db := s.DB(t, s.Login())
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
		serves(t, b, s)
		for _, row := range rows {
			if row[0] != "plpgsql" {
				if _, err := db.ExecContext(t.Context(), `DROP EXTENSION IF EXISTS "`+row[0]+`" CASCADE`); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func lookAt(ctx context.Context, s *enginetest.Server, sql string) ([][]string, error) {
	conn, err := asAdminIn(ctx, s.Node, firstDatabase, ownParameters())
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
