package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/archive/archivetest"
	"steward/internal/operate"
	"steward/internal/testdir"
	"steward/test/harness"
)

// bucketBound is within what time a backup or a restore has ended whatever the
// bucket does, with the settings of bucketConfig: the time it is tried again for,
// and then an attempt in which a request or two isn't answered.
const bucketBound = time.Minute

const bucketConfig = "pool:\n  size: 0\nbackups:\n  verify: false\n  timeout: 1s\n  retry_for: 3s\n  url: '%s'"

// bucketFault is a way for a bucket to fail in the middle of a backup or a restore.
type bucketFault struct {
	name string
	archivetest.Trouble
	// kill has steward killed at that moment.
	kill bool
	// passing reports whether the bucket comes back in time; why, else, what people are told.
	passing bool
	why     string
}

// sent chooses requests that store something, data those for a backup's data.
func sent(r *http.Request) bool { return r.Method == http.MethodPut || r.Method == http.MethodPost }

func data(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "data.zst.age")
}

func backupFaults() []bucketFault {
	const unreachable, full, short = "couldn't be reached", operate.FullReason, 500 * time.Millisecond
	notManifest := func(r *http.Request) bool { return sent(r) && strings.HasSuffix(r.URL.Path, "manifest.json") }
	return []bucketFault{
		{"full at first", archivetest.Trouble{Status: 507, Match: sent}, false, false, full},
		{"full in the middle", archivetest.Trouble{Status: 507, Match: sent, After: 2}, false, false, full},
		{"full for the manifest", archivetest.Trouble{Status: 507, Match: notManifest}, false, false, full},
		{"full, and killed", archivetest.Trouble{Status: 507, Match: sent, After: 2}, true, false, full},
		{"broken", archivetest.Trouble{Status: 500, Match: sent, After: 1}, false, false, unreachable},
		{"gone in the middle", archivetest.Trouble{Kind: archivetest.Reset, After: 6, Bytes: 1 << 20}, false, false, unreachable},
		{"gone in the middle, and killed", archivetest.Trouble{Kind: archivetest.Reset, After: 6, Bytes: 1 << 20}, true, false, unreachable},
		{"silent in the middle", archivetest.Trouble{Kind: archivetest.Hang, Match: sent, After: 2, Bytes: 1 << 20}, false, false, unreachable},
		{"silent at the end, and killed", archivetest.Trouble{Kind: archivetest.Hang, Match: notManifest}, true, false, unreachable},
		{"unavailable for a while", archivetest.Trouble{Status: 503, Match: sent, After: 1, For: short}, false, true, ""},
		{"cut off for a while", archivetest.Trouble{Kind: archivetest.Reset, Match: sent, After: 2, Bytes: 1 << 20, For: short}, false, true, ""},
		{"unavailable for a while, and killed", archivetest.Trouble{Status: 503, Match: sent, After: 2, For: short}, true, true, ""},
		{"silent for a while", archivetest.Trouble{Kind: archivetest.Hang, Match: sent, After: 3, For: short}, false, true, ""},
	}
}

// restoreFaults: the backup is read twice, to prove it and to unpack it.
func restoreFaults() []bucketFault {
	const unreachable, short = "couldn't be reached", 500 * time.Millisecond
	return []bucketFault{
		{"unavailable", archivetest.Trouble{Status: 503, Match: data}, false, false, unreachable},
		{"gone while it is proven", archivetest.Trouble{Kind: archivetest.Reset, Match: data, Bytes: 1 << 20}, false, false, unreachable},
		{"gone while it is unpacked", archivetest.Trouble{Kind: archivetest.Reset, Match: data, After: 1, Bytes: 20 << 20}, false, false, unreachable},
		{"gone, and killed", archivetest.Trouble{Kind: archivetest.Reset, After: 3, Bytes: 20 << 20}, true, false, unreachable},
		{"silent while it is unpacked", archivetest.Trouble{Kind: archivetest.Hang, Match: data, After: 1, Bytes: 20 << 20}, false, false, unreachable},
		{"unavailable for a while", archivetest.Trouble{Status: 503, Match: data, For: short}, false, true, ""},
		{"cut off for a while", archivetest.Trouble{Kind: archivetest.Reset, Match: data, After: 1, Bytes: 20 << 20, For: short}, false, true, ""},
		{"cut off for a while, and killed", archivetest.Trouble{Kind: archivetest.Reset, Match: data, After: 1, Bytes: 20 << 20, For: short}, true, true, ""},
	}
}

// TestBucketThorough: the bucket fails or fills at a moment of a backup and of a restore,
// at all of them when STEWARD_CRASH is all. Nothing half done is ever taken for a
// backup, no row is lost, people are told why, and all goes on once it is back.
func TestBucketThorough(t *testing.T) {
	t.Parallel()
	engines := []string{"postgresql/15"}
	if harness.Everything() {
		engines = append(engines, "mysql/10.11")
	}
	for _, engine := range engines {
		t.Run(strings.ReplaceAll(engine, "/", "-"), func(t *testing.T) { newBucketWorld(t, engine).each(3) })
	}
}

type bucketWorld struct {
	*world
	bucket *archivetest.Bucket
}

func newBucketWorld(t *testing.T, engine string) *bucketWorld {
	t.Parallel()
	bucket := archivetest.NewBucket(t)
	w := prepared(t, postgresql, mariadb, harness.WithConfig(fmt.Sprintf(bucketConfig, bucket.URL())))
	w.Env = bucket.Env()
	w.Start()
	w.keeper(engine, 1)
	w.ballast(40)
	return &bucketWorld{w, bucket}
}

// each tries as many faults of backups, and of restores.
func (b *bucketWorld) each(faults int) {
	b.some("backup", faults, backupFaults(), b.backUp)
	b.backup, b.backedUp = b.Snapshot(b.db, "kept", "primary"), b.rows
	b.keeper(b.db.Engine, 1)
	b.some("restore", faults, restoreFaults(), b.restore)
}

// some tries as many faults, others each time.
func (b *bucketWorld) some(what string, faults int, all []bucketFault, try func(t *testing.T, m bucketFault)) {
	stride := (len(all) + faults - 1) / faults
	if harness.Everything() {
		stride = 1
	}
	for i := testdir.Rand(b.t, what).IntN(stride); i < len(all) && !b.t.Failed(); i += stride {
		b.t.Run(what+" "+all[i].name, func(t *testing.T) {
			outer := b.t
			b.t = t
			defer func() { b.t = outer }()
			try(t, all[i])
		})
	}
}

// ballast makes backups of so many megabytes: of many, they are sent in several parts.
func (w *world) ballast(megabytes int) {
	w.t.Helper()
	kind, mark := "bytea", "$1"
	if w.db.Engine == "mysql" {
		kind, mark = "mediumblob", "?"
	}
	db := w.MustConnect(w.db, w.cred)
	noise := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{})
	_, err := db.ExecContext(w.t.Context(), "CREATE TABLE ballast (filling "+kind+")")
	for i := 0; i < megabytes && err == nil; i++ {
		_, _ = random.Read(noise)
		_, err = db.ExecContext(w.t.Context(), "INSERT INTO ballast VALUES ("+mark+")", noise)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// strike does something to a bucket that fails in the middle of it, and returns
// once that has ended, within the bound.
func (b *bucketWorld) strike(t *testing.T, m bucketFault, ask func() (int, string)) {
	t.Helper()
	pid := b.PID()
	if m.kill {
		m.Struck = func() { _ = syscall.Kill(pid, syscall.SIGKILL) }
	}
	b.bucket.Break(m.Trouble)
	begun := time.Now()
	if status, body := ask(); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	if m.kill {
		select {
		case <-b.Exited():
		case <-time.After(bucketBound):
			t.Fatal("the moment never came")
		}
		b.nothingHalf(t)
		b.Start()
	}
	b.AwaitStatus(b.db, "active")
	if took := time.Since(begun); took > bucketBound {
		t.Errorf("it took %s", took)
	}
	if !b.bucket.Struck() {
		t.Error("nothing went wrong")
	}
	b.bucket.Mend()
	b.mustBeTold(t, m)
}

// nothingHalf: whatever has a manifest is whole.
func (b *bucketWorld) nothingHalf(t *testing.T) {
	t.Helper()
	objects, _, err := b.bucket.Keys()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range objects {
		if beside, is := strings.CutSuffix(key, "manifest.json"); is && !slices.Contains(objects, beside+"data.zst.age") {
			t.Errorf("half a backup: %v", objects)
		}
	}
}

// mustBeTold: the last event says why, or that all went well.
func (b *bucketWorld) mustBeTold(t *testing.T, m bucketFault) {
	t.Helper()
	last := b.Events()[0]
	if m.passing && last.Status != "finished" || !m.passing && (last.Status != "failed" || !strings.Contains(last.Message, m.why)) {
		t.Errorf("the event is %+v", last)
	}
}

func (b *bucketWorld) backUp(t *testing.T, m bucketFault) {
	b.strike(t, m, func() (int, string) {
		return b.Call("POST", b.db.Path()+"/backups", map[string]any{"label": "s", "target": "primary"}, nil)
	})
	b.nothingHalf(t)
	made, _ := b.FindBackup(b.db, "s")
	switch {
	case m.passing:
		if made.State != "complete" {
			t.Errorf("%+v", made)
		}
	case made.State != "failed" || made.Problem == nil || !strings.Contains(*made.Problem, m.why):
		t.Errorf("the failed backup is %+v", made)
	default:
		if status, body := b.Call("POST", made.Path(b.db)+"/restore", nil, nil); status != http.StatusBadRequest {
			t.Errorf("it can be restored: %d %s", status, body)
		}
	}
	b.mustHaveRows(t, b.rows)
	b.drop("s")
	b.Snapshot(b.db, "next", "primary")
	b.drop("next")
	b.Eventually("empty bucket", b.empty)
}

// empty is nil when nothing is left of backups.
func (b *bucketWorld) empty() error {
	objects, uploads, err := b.bucket.Keys()
	for _, key := range append(objects, uploads...) {
		if strings.Contains(key, "/backups/") {
			err = errors.Join(err, fmt.Errorf("%s is left", key))
		}
	}
	return err
}

func (b *bucketWorld) restore(t *testing.T, m bucketFault) {
	b.strike(t, m, func() (int, string) { return b.Call("POST", b.backup.Path(b.db)+"/restore", nil, nil) })
	want := b.rows
	if m.passing {
		want = b.backedUp
	}
	b.mustHaveRows(t, want)
	if kept, _ := b.FindBackup(b.db, "kept"); kept.State != "complete" || kept.Problem != nil {
		t.Errorf("a bucket that fails is held against the backup: %+v", kept)
	}
	if m.passing {
		b.rows = b.backedUp
		b.rows++
		b.exec(fmt.Sprintf("INSERT INTO kept VALUES (%d)", b.rows))
	}
}

// TestFullDisk: a folder whose file system fills takes no backup, keeps nothing of
// it, and takes the next one once there is room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a file system that fills can't be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	t.Parallel()
	w := prepared(t, mariadb, harness.WithConfig(fmt.Sprintf(bucketConfig, "file://"+dir)))
	w.Start()
	w.keeper("mysql/10.11", 1)
	w.ballast(12)
	if status, body := w.Call("POST", w.db.Path()+"/backups", map[string]any{"label": "s"}, nil); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	w.AwaitStatus(w.db, "active")
	if b, _ := w.FindBackup(w.db, "s"); b.State != "failed" || b.Problem == nil || !strings.Contains(*b.Problem, operate.FullReason) {
		t.Errorf("%+v", b)
	}
	w.Eventually("nothing of it is left", func() error { // what is archived between backups comes and goes meanwhile
		return testdir.Walk(dir, func(path string, e fs.DirEntry) error {
			if !e.IsDir() && (!strings.Contains(path, "/wal/") || strings.HasSuffix(path, ".tmp")) {
				return fmt.Errorf("%s is left", path)
			}
			return nil
		})
	})
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=100m"); err != nil {
		t.Fatal(err)
	}
	w.drop("s")
	w.backup, w.backedUp = w.Snapshot(w.db, "kept", "primary"), w.rows
	w.keeper("mysql/10.11", 1)
	w.Restore(w.db, w.backup)
	w.mustHaveRows(t, w.backedUp)
}
