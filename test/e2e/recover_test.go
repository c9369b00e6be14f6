package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"steward/test/harness"
)

// lostServer is what is left of one: its bucket and its seal key, and what its
// customers know.
type lostServer struct {
	bucket, key string
	databases   []harness.Database
	credentials map[int64]harness.Credentials
}

// TestRecover is the day on which a server is gone: from its bucket and its seal
// key another one brings its databases back, with the passwords and the CAs that
// clients have.
func TestRecover(t *testing.T) {
	t.Parallel()
	recovers(t, 1)
}

// TestRecoverThorough is TestRecover where one of the databases has three nodes.
func TestRecoverThorough(t *testing.T) {
	t.Parallel()
	recovers(t, 3)
}

func recovers(t *testing.T, size int) {
	t.Helper()
	left := loseAServer(t, size)
	b := harness.Prepare(t, harness.Empty())
	recovering := func(more ...string) (string, error) {
		args := []string{"recover", "--backups", left.bucket, "--data", b.Data, "--config", b.ConfigPath()}
		return b.Command(append(args, more...)...)
	}
	refusesWhatIsWrong(t, left, recovering)
	if entries, err := os.ReadDir(b.Data); err != nil || len(entries) > 0 {
		t.Errorf("looking made %v, %v", entries, err)
	}
	b.PrepareTemplates("postgresql-15", "mariadb-10.11")

	first := fmt.Sprint(left.databases[0].ID)
	out, err := recovering("--seal-key", left.key, "--cluster", first)
	if err != nil || !strings.Contains(out, "is being restored") || !strings.Contains(out, "steward serve") {
		t.Fatalf("recover one beside no server: %v\n%s", err, out)
	}
	out, err = recovering("--seal-key", left.key, "--cluster", first)
	if err != nil || !strings.Contains(out, "was begun before") {
		t.Errorf("recover it again: %v\n%s", err, out)
	}
	b.Start("--backups", left.bucket)
	b.Kill() // while it brings the data back
	b.Start("--backups", left.bucket)
	out, err = recovering()
	if err != nil {
		t.Fatalf("recover the rest beside a server: %v\n%s\n%s", err, out, b.LogTail())
	}
	for _, d := range left.databases {
		isBack(t, b, left, d)
	}
	if out, err = recovering(); err != nil || strings.Count(out, "is here already, and active") != len(left.databases) {
		t.Errorf("recover what is there: %v\n%s", err, out)
	}
	// What is made now takes nothing from what the bucket has.
	if d := b.CreateActive(harness.Small("another", engines[0])); d.ID <= left.databases[len(left.databases)-1].ID {
		t.Errorf("a new database got the id %d", d.ID)
	}
}

// loseAServer fills a server, backs it up, and leaves nothing of it but that.
func loseAServer(t *testing.T, size int) lostServer {
	t.Helper()
	left := lostServer{bucket: t.TempDir(), key: filepath.Join(t.TempDir(), "seal.key"), credentials: map[int64]harness.Credentials{}}
	a := harness.Prepare(t, ofPostgreSQL, ofMariaDB)
	a.Start("--backups", left.bucket)
	for _, spec := range precious(a, size) {
		d := a.CreateActive(spec)
		db := a.MustConnect(d, a.Credentials(d))
		exec1(t, db, "CREATE TABLE kept (n int PRIMARY KEY)")
		exec1(t, db, "INSERT INTO kept VALUES (1), (2), (3)")
		if out, err := a.Command("backup", "create", d.Label, "before"); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, a.LogTail())
		}
		left.databases = append(left.databases, d)
	}
	changesItsPassword(t, a, left)
	for _, d := range left.databases {
		left.credentials[d.ID] = a.Credentials(d)
	}
	content, err := os.ReadFile(filepath.Join(a.Data, "seal.key"))
	if err == nil {
		err = os.WriteFile(left.key, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	burn(t, a)
	return left
}

// precious are databases of each kind: of so many nodes, and encrypted at rest. All of
// MySQL's family have their keys in one way.
func precious(s *harness.Server, size int) []harness.Spec {
	plain, encrypted := harness.Small("precious-plain", engines[0]), harness.Small("precious-encrypted", engines[1])
	plain["cluster_size"], encrypted["encrypted"] = size, true
	specs := []harness.Spec{plain, encrypted}
	if !all() {
		return specs
	}
	specs = append(specs, harness.Small("precious-mariadb", mariadb))
	if series := installedMySQL(s); series != "" {
		mysql := harness.Small("precious-mysql", "mysql/"+series)
		mysql["encrypted"] = true
		specs = append(specs, mysql)
	}
	return specs
}

// changesItsPassword: what changes after the last backup comes back, too.
func changesItsPassword(t *testing.T, a *harness.Server, left lostServer) {
	t.Helper()
	d := left.databases[1]
	record := filepath.Join(left.bucket, "clusters", fmt.Sprint(d.ID), "recovery")
	before, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := a.Command("db", "credentials", d.Label, "--reset"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	a.Eventually("the recovery record is new", func() error {
		if now, err := os.ReadFile(record); err != nil || string(now) == string(before) {
			return fmt.Errorf("still the old one, %w", err)
		}
		return nil
	})
}

// burn kills everything of a server and deletes its folder.
func burn(t *testing.T, a *harness.Server) {
	t.Helper()
	a.Kill()
	a.Eventually("all processes are gone", func() error {
		all := a.Processes()
		for pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if len(all) > 0 {
			return fmt.Errorf("%d are left", len(all))
		}
		return nil
	})
	if err := os.RemoveAll(a.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(a.Data, 0o711); err != nil { // the harness wants to stop what isn't there
		t.Fatal(err)
	}
}

func refusesWhatIsWrong(t *testing.T, left lostServer, recovering func(...string) (string, error)) {
	t.Helper()
	out, err := recovering("--seal-key", left.key, "--list")
	if err != nil || strings.Count(out, "can be recovered") != len(left.databases) {
		t.Errorf("list: %v\n%s", err, out)
	}
	foreign := filepath.Join(t.TempDir(), "seal.key")
	if err := os.WriteFile(foreign, []byte("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = recovering("--seal-key", foreign, "--list", "--json")
	var found []struct {
		Problem string `json:"problem"`
	}
	if err != nil || json.Unmarshal([]byte(out), &found) != nil || len(found) != len(left.databases) || !strings.Contains(found[0].Problem, "another server's key") {
		t.Errorf("another server's key: %v\n%s", err, out)
	}
	if out, err := recovering("--seal-key", foreign); err == nil || !strings.Contains(out, "another server's key") {
		t.Errorf("recover with another server's key: %v\n%s", err, out)
	}
	if out, err := recovering("--list", "--seal-key", foreign+"-gone"); err == nil || !strings.Contains(out, "--seal-key") {
		t.Errorf("no key: %v\n%s", err, out)
	}
}

// isBack demands that a client who knows only the new address finds its rows.
func isBack(t *testing.T, b *harness.Server, left lostServer, d harness.Database) {
	t.Helper()
	now := b.AwaitStatus(d, "active")
	old := left.credentials[d.ID]
	if now.Label != d.Label || now.Type != d.Type || fmt.Sprint(now.AllowList) != fmt.Sprint(d.AllowList) || len(now.Members) != len(d.Members) {
		t.Errorf("it was %+v, and is %+v", d, now)
	}
	if shown := b.Credentials(now); shown.Password != old.Password || string(shown.CA) != string(old.CA) {
		t.Errorf("%s has other credentials", d.Label)
	}
	db := b.MustConnect(now, old)
	if n := one(t, db, "SELECT count(*) FROM kept"); n != "3" {
		t.Errorf("%s: %s rows of 3 are back", d.Label, n)
	}
	exec1(t, db, "INSERT INTO kept VALUES (4)")
	if out, err := b.Command("backup", "list", d.Label); err != nil || !strings.Contains(out, "before") {
		t.Errorf("its backups: %v\n%s", err, out)
	}
}
