package pgtest

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"steward/internal/store"
	"steward/internal/testdir"
)

func TestMain(m *testing.M) { Main(m) }

// TestTheNextHasANewDatabase: a test that has the database of one before finds nothing of that, and no test has one
// whose definitions were changed.
func TestTheNextHasANewDatabase(t *testing.T) {
	testdir.NeedsServers(t)
	var names, contents []string
	for _, change := range []string{
		"DELETE FROM goose_db_version WHERE version_id > 1; UPDATE river_migration SET line = 'mine'",
		"ALTER TABLE accounts ADD mine int",
		"",
	} {
		ok := t.Run(change, func(t *testing.T) {
			s := Store(t)
			names, contents = append(names, s.Pool().Config().ConnConfig.Database), append(contents, content(t, s))
			if err := s.InTx(t.Context(), func(tx *store.Tx) error {
				_, err := tx.EnsureAdmin(t.Context())
				return err
			}); err != nil {
				t.Fatal(err)
			}
			conn, err := s.Pool().Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			if _, err := conn.Conn().PgConn().Exec(t.Context(), change).ReadAll(); err != nil {
				t.Fatal(err)
			}
		})
		if !ok {
			return
		}
	}
	if names[0] != names[1] || names[1] == names[2] {
		t.Errorf("the databases are %q", names)
	}
	if contents[0] == "" || contents[0] != contents[1] || contents[1] != contents[2] {
		t.Errorf("they have %q", contents)
	}
}

// content are all rows, and where sequences are.
func content(t *testing.T, s *store.Store) (text string) {
	t.Helper()
	all := func(query string) []string {
		t.Helper()
		rows, err := s.Pool().Query(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return found
	}
	for _, table := range all("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1") {
		text += fmt.Sprintln(table, all("SELECT t::text FROM "+table+" t ORDER BY 1"))
	}
	return text + fmt.Sprintln(all("SELECT sequencename || ' ' || coalesce(last_value::text, 'new') FROM pg_sequences ORDER BY 1"))
}
