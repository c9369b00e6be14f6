package api_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestLastProvenBackup: the newest backup that was proven to restore counts, by when it began: not one that waits for its proof, that doesn't
// restore or was never complete, nor one that was proven once more since.
func TestLastProvenBackup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", b.create())
	for _, c := range []struct{ backup, want string }{
		{"", "null"},
		{"'complete', '2026-01-31T15:00:00Z', NULL, ''", "null"},
		{"'complete', '2026-01-31T16:00:00Z', '2026-01-31T18:00:00Z', ''", `"2026-01-31T16:00:00"`},
		{"'complete', '2026-01-31T17:00:00Z', '2026-01-31T17:10:00Z', ''", `"2026-01-31T17:00:00"`},
		{"'complete', '2026-01-31T17:30:00Z', NULL, ''", `"2026-01-31T17:00:00"`},
		{"'complete', '2026-01-31T17:40:00Z', '2026-01-31T17:41:00Z', 'it doesn''t restore'", `"2026-01-31T17:00:00"`},
		{"'failed', '2026-01-31T17:50:00Z', NULL, ''", `"2026-01-31T17:00:00"`},
		{"'deleting', '2026-01-31T17:55:00Z', '2026-01-31T17:56:00Z', ''", `"2026-01-31T17:00:00"`},
	} {
		if c.backup != "" {
			if _, err := b.store.Pool().Exec(t.Context(), `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, verified, problem)
				SELECT account_id, id, 'snapshot', 'n' || (SELECT count(*) FROM backups), 'primary', `+c.backup+` FROM clusters`); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{one, "/v4/databases/instances", "/v4/databases/postgresql/instances"} {
			if r := b.send("GET", path, b.readOnly, ""); !strings.Contains(r.body, `"last_proven_backup":`+c.want+`,`) {
				t.Errorf("after %q: %s: %s", c.backup, path, r.body)
			}
		}
	}
}
