package api_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestRestoreWindows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	look := func(token, want string) {
		t.Helper()
		if r := b.send("GET", path+"/restore-windows", token, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != want {
			t.Errorf("%d %s", r.StatusCode, r.body)
		}
	}
	look(b.readOnly, `{"data":[]}`)
	b.api.Control.Backups.Continuous, b.api.Control.Clusters.Continuous = true, true
	for _, sql := range []string{
		`INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, finished)
			SELECT account_id, id, 'snapshot', 'one' || n, 'primary', 'complete', '2026-01-31T18:00:00Z'::timestamptz + n * interval '1 hour', '2026-01-31T18:10:00Z'::timestamptz + n * interval '1 hour'
			FROM clusters, generate_series(0, 1) n`,
		`INSERT INTO operations (account_id, cluster_id, entity_type, entity_id, label, engine, action, status, username, params, percent, message, created, started, finished)
			SELECT account_id, id, 'database', 0, label, engine, action, 'finished', '', params, 100, '', at, at, at FROM clusters, (VALUES
				('database_backup_restore', '{"touched":true}'::jsonb, '2026-01-31T18:30:00Z'::timestamptz), ('database_backup_restore', '{}', '2026-01-31T18:20:00Z'),
				('database_archive_gap', '{}', '2026-01-31T20:00:00Z')) AS happened(action, params, at)`,
		"UPDATE clusters SET status = 'active'",
	} {
		if _, err := b.store.Pool().Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	look(b.readOnly, `{"data":[{"from":"2026-01-31T18:00:00","to":"2026-01-31T18:00:00"},{"from":"2026-01-31T18:10:00","to":"2026-01-31T18:30:00"},`+
		`{"from":"2026-01-31T19:00:00","to":"2026-01-31T19:00:00"},{"from":"2026-01-31T19:10:00","to":"2026-01-31T19:10:00"}]}`)
	if r := b.send("GET", path+"/restore-windows", b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("without a grant: %d", r.StatusCode)
	}
	b.api.Control.Backups.Continuous, b.api.Control.Clusters.Continuous = false, false
	look(b.readOnly, `{"data":[{"from":"2026-01-31T18:00:00","to":"2026-01-31T18:00:00"},{"from":"2026-01-31T19:00:00","to":"2026-01-31T19:00:00"}]}`)
	if r := b.send("GET", path, b.readOnly, ""); !strings.Contains(r.body, `"oldest_restore_time":"2026-01-31T18:00:00","newest_restore_time":"2026-01-31T19:00:00"`) {
		t.Errorf("%s", r.body)
	}
}
