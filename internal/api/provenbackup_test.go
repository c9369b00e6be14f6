package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/api"
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

// TestBackupProblem: a last backup that failed, and one that is too old to rely on by the alert's rule, are told of; what comes after is good again.
func TestBackupProblem(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	b := newBench(t, func(o *api.Options) { o.Now = func() time.Time { return now } })
	clusters := b.api.Control.Clusters
	clusters.Backups, clusters.Verified = true, true
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", b.create())
	backup := func(values string) string {
		return `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, verified, problem)
			SELECT account_id, id, 'snapshot', 'n' || (SELECT count(*) FROM backups), 'primary', ` + values + ` FROM clusters`
	}
	for _, c := range []struct{ name, sql, want string }{
		{"made a day ago", "UPDATE clusters SET status = 'active', created = '2026-01-30T16:01:00Z'", "null"},
		{"made longer ago", "UPDATE clusters SET created = '2026-01-30T15:59:00Z'", `"unproven"`},
		{"suspended", "UPDATE clusters SET status = 'suspended'", "null"},
		{"asleep", "UPDATE clusters SET status = 'active', sleeping_since = now()", "null"},
		{"awake", "UPDATE clusters SET sleeping_since = NULL", `"unproven"`},
		{"backed up", backup("'complete', '2026-01-31T10:00:00Z', NULL, ''"), `"unproven"`},
		{"proven", "UPDATE backups SET verified = '2026-01-31T10:10:00Z'", "null"},
		{"failed", backup("'failed', '2026-01-31T11:00:00Z', NULL, 'why'"), `"failed"`},
		{"failed and suspended", "UPDATE clusters SET status = 'suspended'", `"failed"`},
		{"tried again", "UPDATE clusters SET status = 'active';" + backup("'running', '2026-01-31T12:00:00Z', NULL, ''"), `"failed"`},
		{"complete", "UPDATE backups SET state = 'complete' WHERE state = 'running'", "null"},
		{"doesn't restore", "UPDATE backups SET problem = 'why' WHERE created = '2026-01-31T12:00:00Z'", `"failed"`},
		{"deleted", "UPDATE backups SET state = 'deleting' WHERE created > '2026-01-31T10:00:00Z'", "null"},
		{"too old", "UPDATE backups SET created = '2026-01-30T15:59:00Z', verified = '2026-01-31T17:00:00Z'", `"unproven"`},
	} {
		if _, err := b.store.Pool().Exec(t.Context(), c.sql); err != nil {
			t.Fatal(c.name, err)
		}
		for _, path := range []string{one, "/v4/databases/instances"} {
			if r := b.send("GET", path, b.readOnly, ""); !strings.Contains(r.body, `"backup_problem":`+c.want+`,`) {
				t.Errorf("%s: %s: %s", c.name, path, r.body)
			}
		}
	}
	none := func(why string) {
		t.Helper()
		if r := b.send("GET", one, b.readOnly, ""); !strings.Contains(r.body, `"backup_problem":null,`) {
			t.Errorf("%s: %s", why, r.body)
		}
	}
	clusters.Backups = false
	none("nothing is backed up")
	clusters.Backups, clusters.Verified = true, false
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE backups SET state = 'complete', created = '2026-01-31T10:00:00Z', verified = NULL, problem = ''"); err != nil {
		t.Fatal(err)
	}
	none("nothing is tried out, and a backup is complete")
}
