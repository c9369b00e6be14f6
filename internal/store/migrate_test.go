package store_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/monitor"
	"steward/internal/operation"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// words are the values that a check constraint lets through.
func words(t *testing.T, s *store.Store, constraint string) []string {
	t.Helper()
	var text string
	if err := s.Pool().QueryRow(t.Context(), "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = $1", constraint).Scan(&text); err != nil {
		t.Fatalf("%s: %v", constraint, err)
	}
	var found []string
	for _, quoted := range regexp.MustCompile(`'[^']*'`).FindAllString(text, -1) {
		found = append(found, strings.Trim(quoted, "'"))
	}
	slices.Sort(found)
	return found
}

func sorted[T ~string](values ...T) []string {
	var texts []string
	for _, v := range values {
		texts = append(texts, string(v))
	}
	slices.Sort(texts)
	return texts
}

// TestConstraintsKnowTheNouns: the database and the code have the same words.
func TestConstraintsKnowTheNouns(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	for constraint, want := range map[string][]string{
		"clusters_status_check":   sorted(cluster.Statuses...),
		"clusters_engine_check":   sorted(cluster.MySQL, cluster.PostgreSQL),
		"operations_status_check": sorted(operation.Scheduled, operation.Started, operation.Finished, operation.FailedStatus, operation.Notification),
		"backups_type_check":      sorted(backup.Snapshot, backup.Auto),
		"backups_target_check":    sorted(backup.FromPrimary, backup.FromSecondary),
		"backups_state_check":     sorted(backup.Running, backup.Complete, backup.Failed, backup.Deleting),
		"notices_kind_check": sorted(monitor.NoticeOpened, monitor.NoticeRecovered, monitor.NoticeUnwatched,
			monitor.NoticeAnnounced, monitor.NoticeBegun, monitor.NoticeDone, monitor.NoticeUnfinished,
			monitor.NoticeGrown, monitor.NoticeFull),
		"grants_permission_check": sorted(account.ReadOnly, account.ReadWrite),
	} {
		if diff := cmp.Diff(want, words(t, s, constraint)); diff != "" {
			t.Errorf("%s: -code +database\n%s", constraint, diff)
		}
	}
}

// dump describes the schema and its bookkeeping.
func dump(t *testing.T, s *store.Store) string {
	t.Helper()
	var text string
	err := s.Pool().QueryRow(t.Context(), `SELECT string_agg(line, E'\n' ORDER BY line) FROM (
		SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) AS line FROM information_schema.columns WHERE table_schema = 'public'
		UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
		UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
		UNION ALL SELECT 'version ' || id || ' ' || version_id || ' ' || tstamp FROM goose_db_version
		UNION ALL SELECT 'river ' || version || ' ' || created_at FROM river_migration) all_lines`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestMigrationsTwice(t *testing.T) {
	t.Parallel()
	a, b := servers(t) // both migrate at once
	before := dump(t, a)
	if !strings.Contains(before, "clusters_label_unique") || !strings.Contains(before, "river_job") {
		t.Fatalf("not migrated:\n%s", before)
	}
	third := pgtest.Open(t, store.Options{URL: a.Pool().Config().ConnString()})
	if diff := cmp.Diff(before, dump(t, third)); diff != "" {
		t.Errorf("the next start changed something: -before +after\n%s", diff)
	}
	if _, err := b.Pool().Exec(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{URL: a.Pool().Config().ConnString()}); err == nil || !strings.Contains(err.Error(), "newer steward") {
		t.Errorf("a store of a newer steward: %v", err)
	}
}

// TestAnOlderStoreIsMigrated: databases made before a column came have its default.
func TestAnOlderStoreIsMigrated(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	c, err := s.ClusterForWork(t.Context(), newCluster(t, s, newAccount(t, s, "a").Account, "old").ID)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(s.Pool())
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.DownTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	newer := pgtest.Open(t, store.Options{URL: s.Pool().Config().ConnString()})
	got, err := newer.ClusterForWork(t.Context(), c.ID)
	if diff := cmp.Diff(c, got, sameInstant); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
}
