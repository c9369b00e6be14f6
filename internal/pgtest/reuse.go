package pgtest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// reused is a migrated database that one test after the other has: to empty one takes a fraction of the time of making and
// removing one, some thousand files each.
type reused struct {
	name string
	// conn empties it. A database that is connected to for the first time also takes longer to connect to.
	conn *pgx.Conn
}

// migratedDatabase is for as long as the test takes.
func (s *server) migratedDatabase(t testing.TB) string {
	t.Helper()
	d, err := s.takeMigrated(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.giveBack(context.Background(), d); err != nil {
			t.Error(err)
		}
	})
	return databaseURL(s.url, d.name)
}

func (s *server) takeMigrated(ctx context.Context) (*reused, error) {
	s.mu.Lock()
	if last := len(s.spare) - 1; last >= 0 {
		d := s.spare[last]
		s.spare = s.spare[:last]
		s.mu.Unlock()
		return d, nil
	}
	s.mu.Unlock()
	d := &reused{name: "test_" + random()}
	if err := s.create(d.name, s.migrated); err != nil {
		return nil, err
	}
	var err error
	if d.conn, err = pgx.Connect(ctx, databaseURL(s.url, d.name)); err != nil {
		return nil, err
	}
	s.emptying.Do(func() { s.empty, s.emptyErr = emptying(ctx, d.conn) })
	return d, s.emptyErr
}

// giveBack empties a database for the next test. One that can't be made like new is removed.
func (s *server) giveBack(ctx context.Context, d *reused) error {
	var like bool
	err := d.conn.QueryRow(ctx, s.empty.looksNew).Scan(&like)
	if err == nil && !like { // a session that ends by itself as it is to be ended counts as one that can't be
		err = d.conn.QueryRow(ctx, s.empty.looksNew).Scan(&like)
	}
	if err == nil && like {
		_, err = d.conn.Exec(ctx, s.empty.statements) // in one transaction
	}
	if err != nil || !like {
		d.conn.Close(ctx)
		return s.drop(d.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare = append(s.spare, d)
	return nil
}

// emptied is how a migrated database becomes one that nobody has used.
type emptied struct {
	// looksNew ends other sessions, and reports whether the database differs from a new one in its rows alone.
	looksNew string
	// statements give its tables the rows of a new one, and its sequences their place.
	statements string
}

// definitions count what tests could add or remove, and statistics, by which queries are planned.
const definitions = `(SELECT count(*) FROM pg_class WHERE oid >= 16384) + (SELECT count(*) FROM pg_attribute WHERE attrelid >= 16384)
	+ (SELECT count(*) FROM pg_constraint) + (SELECT count(*) FROM pg_trigger) + (SELECT count(*) FROM pg_proc WHERE oid >= 16384)
	+ (SELECT count(*) FROM pg_db_role_setting) + (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384)`

// looksNew has room for what tables keep of rows that were deleted: those of a few megabytes slow who reads them.
const looksNew = `SELECT bool_and(gone) AND %s = %d AND (SELECT sum(pg_relation_size(oid)) < 4e6 FROM pg_class WHERE oid >= 16384 AND relkind = 'r')
	FROM (SELECT true AS gone UNION ALL
		SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()) AS others`

// restart are statements that set sequences to where they are.
const restart = `SELECT format('SELECT setval(%L, %s, %L)', format('%I.%I', schemaname, sequencename),
	coalesce(last_value, start_value), last_value IS NOT NULL) FROM pg_sequences`

// emptying reads from a new database what empties one.
func emptying(ctx context.Context, conn *pgx.Conn) (emptied, error) {
	failed := func(err error) (emptied, error) { return emptied{}, fmt.Errorf("look at a new database: %w", err) }
	var there int64
	if err := conn.QueryRow(ctx, "SELECT "+definitions).Scan(&there); err != nil {
		return failed(err)
	}
	tables, err := texts(ctx, conn, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	if err != nil {
		return failed(err)
	}
	statements := []string{"SET LOCAL session_replication_role = replica"} // without triggers and foreign keys
	for _, table := range tables {
		statements = append(statements, "DELETE FROM "+table)
		rows, err := texts(ctx, conn, "SELECT json_agg(t)::text FROM "+table+" t HAVING count(*) > 0")
		if err != nil {
			return failed(err)
		}
		for _, content := range rows {
			statements = append(statements, fmt.Sprintf("INSERT INTO %[1]s OVERRIDING SYSTEM VALUE SELECT * FROM json_populate_recordset(NULL::%[1]s, '%[2]s')",
				table, strings.ReplaceAll(content, "'", "''")))
		}
	}
	sequences, err := texts(ctx, conn, restart)
	if err != nil {
		return failed(err)
	}
	return emptied{looksNew: fmt.Sprintf(looksNew, definitions, there), statements: strings.Join(append(statements, sequences...), "; ")}, nil
}

// texts are the answer of a query for one column.
func texts(ctx context.Context, conn *pgx.Conn, query string) ([]string, error) {
	rows, err := conn.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
