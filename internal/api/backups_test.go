package api_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/store"
)

// TestBackups by the paths of both versions: taken, listed, viewed, restored, deleted.
func TestBackups(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	all := one + "/backups"
	is := func(status cluster.Status) {
		t.Helper()
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", status, id); err != nil {
			t.Fatal(err)
		}
	}
	if r := b.send("GET", all, b.full, ""); r.StatusCode != 400 || !strings.Contains(r.body, "provisioning") {
		t.Errorf("while it is provisioned: %d %s", r.StatusCode, r.body)
	}
	is(cluster.Active)
	if r := b.send("GET", all, b.full, ""); r.StatusCode != 200 || !strings.Contains(r.body, `"data":[]`) || !strings.Contains(r.body, `"results":0`) {
		t.Errorf("none yet: %d %s", r.StatusCode, r.body)
	}
	for body, want := range map[string][]string{
		`{}`:                           {"label: label is required"},
		`{"label":"a b"}`:              {"label"},
		`{"label":"","target":"moon"}`: {"label: Length must be 1-30 characters", "target: Must be one of primary, secondary"},
		`{"label":"` + strings.Repeat("x", 31) + `"}`: {"label: Length must be 1-30 characters"},
	} {
		r := b.send("POST", all, b.full, body)
		got := r.faults()
		if r.StatusCode != 400 || len(got) != len(want) || !strings.Contains(strings.Join(got, "\n"), want[0]) {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	if r := b.send("POST", all, b.readOnly, `{"label":"mine"}`); r.StatusCode != 401 {
		t.Errorf("with a token to read: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", all, b.full, `{"label":"mine","target":"secondary"}`); r.StatusCode != 200 || strings.TrimSpace(r.body) != "{}" {
		t.Fatalf("snapshot: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", one, b.full, ""); !strings.Contains(r.body, `"status":"backing_up"`) {
		t.Errorf("%s", r.body)
	}
	var listed struct {
		Data []map[string]any
	}
	read := func(filter string) []map[string]any {
		t.Helper()
		r := b.send("GET", strings.Replace(all, "/v4/", "/v4beta/", 1), b.full, "", "X-Filter", filter)
		if err := json.Unmarshal([]byte(r.body), &listed); err != nil || r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
		return listed.Data
	}
	first := read("")[0]
	if first["label"] != "mine" || first["type"] != "snapshot" || first["state"] != "running" || first["target"] != "primary" || first["size_bytes"] != nil || first["verified"] != nil {
		t.Errorf("%v", first)
	}
	mine := fmt.Sprintf("%s/%v", all, first["id"])
	if r := b.send("POST", mine+"/restore", b.full, ""); r.StatusCode != 400 || len(r.faults()) != 2 {
		t.Errorf("restored while it runs: %d %s", r.StatusCode, r.body)
	}
	err := b.store.InTx(t.Context(), func(tx *store.Tx) error {
		done := backup.Backup{ID: backup.ID(first["id"].(float64)), State: backup.Complete, Bytes: 300, StoredBytes: 100}
		if err := tx.FinishBackup(t.Context(), done); err != nil {
			return err
		}
		return tx.BackupVerified(t.Context(), done.ID, "")
	})
	if err != nil {
		t.Fatal(err)
	}
	is(cluster.Active)
	r := b.send("GET", mine, b.full, "")
	for _, part := range []string{`"state":"complete"`, `"size_bytes":300`, `"stored_bytes":100`, `"problem":null`, `"verification":"passed"`} {
		if r.StatusCode != 200 || !strings.Contains(r.body, part) || strings.Contains(r.body, `"verified":null`) {
			t.Errorf("%s: %d %s", part, r.StatusCode, r.body)
		}
	}
	for filter, want := range map[string]int{`{"type":"snapshot"}`: 1, `{"type":"auto"}`: 0, `{"label":"mine","id":{"+gt":0}}`: 1} {
		if got := read(filter); len(got) != want {
			t.Errorf("%s: %v", filter, got)
		}
	}
	if r := b.send("GET", all, b.full, "", "X-Filter", `{"state":"complete"}`); r.StatusCode != 400 || !slices.ContainsFunc(r.faults(), func(f string) bool { return strings.HasPrefix(f, "X-Filter") }) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := b.send("POST", mine+"/restore", b.full, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != "{}" {
		t.Errorf("restore: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", one, b.full, ""); !strings.Contains(r.body, `"status":"restoring"`) {
		t.Errorf("%s", r.body)
	}
	if r := b.send("DELETE", mine, b.full, ""); r.StatusCode != 400 || !strings.Contains(r.body, "being restored") {
		t.Errorf("deleted while it is restored: %d %s", r.StatusCode, r.body)
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE operations SET status = 'finished', finished = now() WHERE finished IS NULL"); err != nil {
		t.Fatal(err)
	}
	if r := b.send("DELETE", mine, b.full, ""); r.StatusCode != 200 || strings.TrimSpace(r.body) != "{}" {
		t.Errorf("delete: %d %s", r.StatusCode, r.body)
	}
	for _, request := range []string{"GET ", "DELETE ", "POST /restore"} {
		method, path, _ := strings.Cut(request, " ")
		if r := b.send(method, mine+path, b.full, ""); r.StatusCode != 404 {
			t.Errorf("%s after it was deleted: %d %s", request, r.StatusCode, r.body)
		}
	}
	for _, action := range []string{"create", "restore", "delete"} {
		if r := b.send("GET", "/v4/account/events", b.full, "", "X-Filter", fmt.Sprintf(`{"action":"database_backup_%s"}`, action)); !strings.Contains(r.body, `"results":1`) {
			t.Errorf("%s: %s", action, r.body)
		}
	}
}

// TestBackupsShowNoSecretsOfTheHost: what a try found is the operator's.
func TestBackupsShowNoSecretsOfTheHost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	all := fmt.Sprintf("/v4/databases/postgresql/instances/%d/backups", id)
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = 'active'"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Pool().Exec(t.Context(), `INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, problem)
		VALUES ($1, $2, 'auto', 'auto20260131', 'primary', 'complete', now(), '/srv/steward/scratch: torn page')`, b.account, id); err != nil {
		t.Fatal(err)
	}
	if r := b.send("GET", all, b.full, ""); strings.Contains(r.body, "/srv") || !strings.Contains(r.body, "doesn't restore") {
		t.Errorf("%s", r.body)
	}
}

// TestEventsNameTheBackup: what happens to a backup says to which one.
func TestEventsNameTheBackup(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	b.is(id, cluster.Active)
	one := fmt.Sprintf("/v4/databases/postgresql/instances/%d", id)
	if r := b.send("POST", one+"/backups", b.full, `{"label":"before"}`); r.StatusCode != 200 {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	r := b.send("GET", "/v4/account/events", b.full, "", "X-Filter", `{"action":"database_backup_create"}`)
	if !strings.Contains(r.body, `"secondary_entity":{"id":1,"label":"before","type":"database_backup","url":"/v4/databases/postgresql/instances/1/backups/1"}`) {
		t.Error(r.body)
	}
	if r := b.send("GET", "/v4/account/events", b.full, "", "X-Filter", `{"action":"database_create"}`); !strings.Contains(r.body, `"secondary_entity":null`) {
		t.Error(r.body)
	}
}

// TestDurationsOfEventsAreWholeMilliseconds, whatever the clock said when the work
// began and ended, and while it goes on.
func TestDurationsOfEventsAreWholeMilliseconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create()
	duration := regexp.MustCompile(`"duration":([^,]*)`)
	for lasted, want := range map[string]string{
		"1.734999": "1.735", "0.300001": "0.3", "61": "61", "4.100499": "4.1", "86400.029": "86400.029", "0.0004": "0",
	} {
		if _, err := b.store.Pool().Exec(t.Context(), `UPDATE operations SET status = 'finished', percent = 100, wake_at = NULL,
			started = '2026-01-31 12:00:00.100001+00', finished = '2026-01-31 12:00:00.100001+00'::timestamptz + $1::interval`, lasted+" seconds"); err != nil {
			t.Fatal(err)
		}
		r := b.send("GET", "/v4/account/events", b.full, "")
		if got := duration.FindStringSubmatch(r.body); got == nil || got[1] != want {
			t.Errorf("%s seconds are %q", lasted, got)
		}
	}
	if _, err := b.store.Pool().Exec(t.Context(), "UPDATE operations SET status = 'started', started = now() - interval '1.734999 seconds', finished = NULL"); err != nil {
		t.Fatal(err)
	}
	r := b.send("GET", "/v4/account/events", b.full, "")
	if got := duration.FindStringSubmatch(r.body); got == nil || !regexp.MustCompile(`^\d+(\.\d{1,3})?$`).MatchString(got[1]) {
		t.Errorf("under way: %q", got)
	}
}

// TestAVerificationThatTookTooLongIsNoProblem: it says nothing of the backup.
func TestAVerificationThatTookTooLongIsNoProblem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	for _, statement := range []string{
		"UPDATE clusters SET status = 'active'",
		fmt.Sprintf(`INSERT INTO backups (account_id, cluster_id, type, label, target, state, created, verify_tries, verify_after)
			VALUES (%d, %d, 'auto', 'auto20260131', 'primary', 'complete', now(), 1, now())`, b.account, id),
	} {
		if _, err := b.store.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	r := b.send("GET", fmt.Sprintf("/v4/databases/postgresql/instances/%d/backups", id), b.full, "")
	for _, part := range []string{`"verification":"timed_out"`, `"problem":null`, `"verified":null`} {
		if !strings.Contains(r.body, part) {
			t.Errorf("%s: %s", part, r.body)
		}
	}
}

// TestABackupThatIsNotThere has one answer by every verb and for both engines.
func TestABackupThatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	for _, engine := range []string{"postgresql", "mysql"} {
		if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET engine = $1 WHERE id = $2", engine, id); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/v4/databases/%s/instances/%d/backups/4711", engine, id)
		for _, c := range []struct {
			status string
			want   int
		}{{"provisioning", 400}, {"updating", 404}, {"restoring", 404}, {"active", 404}, {"degraded", 404}, {"failed", 404}} {
			if _, err := b.store.Pool().Exec(t.Context(), "UPDATE clusters SET status = $1 WHERE id = $2", c.status, id); err != nil {
				t.Fatal(err)
			}
			for method, suffix := range map[string]string{"GET": "", "DELETE": "", "POST": "/restore"} {
				if r := b.send(method, path+suffix, b.full, ""); r.StatusCode != c.want {
					t.Errorf("%s, %s, %s: %d, want %d: %s", engine, c.status, method, r.StatusCode, c.want, r.body)
				}
			}
		}
	}
}
