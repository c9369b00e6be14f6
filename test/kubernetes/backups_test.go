package kubernetes

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/await"
	"steward/test/harness"
)

// query runs a statement as a database's customer, and returns the first column of the first row; "" without any.
func (w *world) query(t *testing.T, s *harness.Server, d harness.Database, statement string) (found string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db, err := w.open(ctx, d, s.Credentials(d), "127.0.0.1")
	if err != nil {
		return "", err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			return "", err
		}
		found = text.String
	}
	return found, rows.Err()
}

// hold has a database hold data, and mustHold demands that it does.
func (w *world) hold(t *testing.T, s *harness.Server, d harness.Database, data string) {
	t.Helper()
	for _, statement := range []string{"CREATE TABLE IF NOT EXISTS held (data text)", "TRUNCATE held", "INSERT INTO held VALUES ('" + data + "')"} {
		if _, err := w.query(t, s, d, statement); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) mustHold(t *testing.T, s *harness.Server, d harness.Database, data string) {
	t.Helper()
	if got, err := w.query(t, s, d, "SELECT data FROM held"); err != nil || got != data {
		t.Errorf("it holds %q, %v, want %q", got, err, data)
	}
}

// backups: a snapshot, what was lost back in place, undone, a fork with a password of its own, and proof that the backup restores.
func (j *journey) backups(t *testing.T) {
	before := j.d.Hosts
	j.hold(t, j.s, j.d, "one")
	b := j.s.Snapshot(j.d, "one", "primary")
	j.hold(t, j.s, j.d, "two")
	j.s.Restore(j.d, b)
	j.d = j.s.AwaitStatus(j.d, "active")
	j.mustHold(t, j.s, j.d, "one")
	if j.d.Hosts != before {
		t.Errorf("its addresses were %+v, and are %+v", before, j.d.Hosts)
	}
	if status, body := j.s.Call("POST", j.d.Path()+"/restore/undo", nil, nil); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	j.d = j.s.AwaitStatus(j.d, "active")
	j.mustHold(t, j.s, j.d, "two")

	spec := harness.Small("fork", "postgresql/15")
	spec["region"], spec["fork"] = "local", map[string]any{"source": j.d.ID}
	if status, body := j.s.Call("POST", "/v4/databases/postgresql/instances", spec, nil); status != 400 || !strings.Contains(body, `"field":"region"`) {
		t.Errorf("a fork elsewhere: %d %s", status, body)
	}
	spec["region"] = "kube"
	fork := j.s.CreateActive(spec)
	j.mustHold(t, j.s, fork, "one")
	if j.s.Credentials(fork).Password == j.s.Credentials(j.d).Password {
		t.Error("the fork has its source's password")
	}
	j.erase(t, fork)

	j.s.Eventually("the backup is verified", func() error {
		if b, _ := j.s.FindBackup(j.d, "one"); b.Verified == nil {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
	var windows struct {
		Data []struct{ From, To string }
	}
	if status, body := j.s.Call("GET", j.d.Path()+"/restore-windows", nil, &windows); status != 200 || len(windows.Data) == 0 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := j.s.Call("DELETE", b.Path(j.d), nil, nil); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	await.True(t, "the backup has left the bucket", func() bool {
		objects, _, err := j.bucket.Keys()
		return err == nil && !strings.Contains(strings.Join(objects, "\n"), "/base/")
	})
}
