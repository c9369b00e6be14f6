package postgresql

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// indexDamage makes an index lie with every page of it intact: the function it
// is made of changes.
func indexDamage(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE FUNCTION shift(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'",
		"CREATE TABLE shifted (v int, w text)", "INSERT INTO shifted SELECT v, repeat('wide ', 1000) FROM generate_series(1, 100) v",
		"CREATE INDEX lying ON shifted (shift(v))")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Bench.Driver.Check(ctx, s.Node, enginetest.Unhurried); err != nil {
		t.Fatalf("check of a sound index: %v", err)
	}
	s.Exec(t, "CREATE OR REPLACE FUNCTION shift(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2'")
	err := s.Bench.Driver.Check(ctx, s.Node, enginetest.Unhurried)
	if err == nil || !strings.Contains(err.Error(), "database defaultdb: public.lying: ") {
		t.Errorf("check of an index that lies: %v", err)
	}
	if got := s.Text(t, "SELECT count(*) FROM pg_extension WHERE extname = 'amcheck'"); got != "0" {
		t.Error("the extension is left")
	}
	pageDamage(t, s)
	s.Exec(t, "DROP TABLE shifted", "DROP FUNCTION shift(int)")
}

// pageDamage changes a byte of a row on the disk, beside the server, whose memory is sound: amcheck, which isn't there on a
// replica and knows few kinds of files, has no part in finding it.
func pageDamage(t *testing.T, s *enginetest.Server) {
	t.Helper()
	if err := New().PrepareStop(t.Context(), s.Node); err != nil {
		t.Fatal(err)
	}
	if err := checkPages(t.Context(), s.Node); err != nil {
		t.Fatalf("check of sound pages: %v", err)
	}
	rows, err := lookIn(t.Context(), s, firstDatabase, "SELECT pg_relation_filepath('public.shifted')")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(s.Node.Data, rows[0][0]), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const inFirstPage = 8000
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, inFirstPage); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := file.WriteAt(b, inFirstPage); err != nil {
		t.Fatal(err)
	}
	if err := checkPages(t.Context(), s.Node); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("check of a damaged page: %v", err)
	}
}

// hostileIndex is made of a function that never ends for us: it catches what
// cancels it, and lifts every limit that a session can be given.
func hostileIndex(t *testing.T, s *enginetest.Server) {
	s.Exec(t, `CREATE FUNCTION trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
			BEGIN
				WHILE session_user = 'steward' LOOP
					BEGIN
						PERFORM set_config('statement_timeout', '0', false), pg_sleep(60);
					EXCEPTION WHEN OTHERS OR query_canceled THEN NULL;
					END;
				END LOOP;
				RETURN $1;
			END $$`,
		"CREATE TABLE trapped (v int)", "INSERT INTO trapped VALUES (1)", "CREATE INDEX hanging ON trapped (trap(v))",
		"CREATE FUNCTION shift(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1'",
		"CREATE TABLE shifted (v int)", "INSERT INTO shifted VALUES (1)", "CREATE INDEX later ON shifted (shift(v))")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	within := func(int64) time.Duration { return 2 * time.Second }
	err := s.Bench.Driver.Check(ctx, s.Node, within)
	if !errors.Is(err, engine.ErrUnchecked) || !strings.HasSuffix(err.Error(), ": public.hanging") {
		t.Errorf("check of an index that hangs: %v", err)
	}
	s.Exec(t, "CREATE OR REPLACE FUNCTION shift(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 2'")
	err = s.Bench.Driver.Check(ctx, s.Node, within)
	if err == nil || errors.Is(err, engine.ErrUnchecked) || !strings.Contains(err.Error(), "public.later: ") {
		t.Errorf("check of an index that lies behind one that hangs: %v", err)
	}
	if got := s.Text(t, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'steward' AND query LIKE '%bt_index_check(%' AND pid <> pg_backend_pid()"); got != "0" {
		t.Errorf("%s sessions of ours hang on", got)
	}
	s.Exec(t, "DROP TABLE trapped, shifted", "DROP FUNCTION trap(int), shift(int)")
}

// hostileDefaults are what an owner can set for all sessions in a database: what
// takes our rights, what ends our sessions, and then what changes them.
func hostileDefaults(t *testing.T, s *enginetest.Server) {
	s.Exec(t, "CREATE DATABASE hostile")
	known := strings.Fields(one(t, s, "SELECT string_agg(name, ' ') FROM pg_settings"))
	for _, hostile := range [][]string{
		{"role = 'dbadmin'", "session_authorization = 'dbadmin'", "exit_on_error = 'on'"},
		{"idle_in_transaction_session_timeout = '1ms'", "idle_session_timeout = '1ms'", "transaction_timeout = '1ms'"},
		{
			"statement_timeout = '1ms'", "lock_timeout = '1ms'", "search_path = 'public'", "default_transaction_read_only = 'on'",
			"default_transaction_deferrable = 'on'", "default_transaction_isolation = 'serializable'", "standard_conforming_strings = 'off'",
			"client_encoding = 'LATIN1'", "work_mem = '64kB'", "maintenance_work_mem = '1GB'", "datestyle = 'SQL, DMY'",
			"bytea_output = 'escape'", "client_min_messages = 'debug5'", "enable_seqscan = 'off'", "quote_all_identifiers = 'on'",
		},
	} {
		var statements []string
		for _, setting := range hostile {
			name, _, _ := strings.Cut(setting, " ")
			if name == "role" || name == "session_authorization" || slices.Contains(known, name) { // else newer than this server
				statements = append(statements, "ALTER DATABASE hostile SET "+setting)
			}
		}
		s.Exec(t, statements...)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := s.Bench.Driver.Check(ctx, s.Node, enginetest.Unhurried); err != nil {
			t.Errorf("%v: %v", hostile, err)
		}
		cancel()
		s.Exec(t, "ALTER DATABASE hostile RESET ALL")
	}
	s.Exec(t, "DROP DATABASE hostile")
}
