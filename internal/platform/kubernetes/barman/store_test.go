package barman_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/archive/archivetest"
	"steward/internal/platform/kubernetes/barman"
)

func open(t *testing.T) (*barman.Store, *archivetest.Bucket) {
	t.Helper()
	bucket := archivetest.NewBucket(t)
	endpoint, name, account, secret := bucket.Place()
	s, err := barman.Open(t.Context(), barman.Options{Destination: "s3://" + name + "/some/where/", Endpoint: endpoint, AccessKey: account, SecretKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, bucket
}

// fill writes objects as barman-cloud does.
func fill(t *testing.T, s *barman.Store, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := s.Bucket.WriteAll(t.Context(), s.Prefix+key, []byte("content"), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func mustBe(t *testing.T, b *archivetest.Bucket, want ...string) {
	t.Helper()
	objects, _, err := b.Keys()
	for i := range objects {
		objects[i] = strings.TrimPrefix(objects[i], "some/where/")
	}
	slices.Sort(objects)
	slices.Sort(want)
	if err != nil || !slices.Equal(objects, want) {
		t.Errorf("there is %q, %v, want %q", objects, err, want)
	}
}

// TestWhatIsThere: compressed files are files, parts and labels of backups are none, and neither is another server's with a longer name.
func TestWhatIsThere(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	fill(t, s, "db-1-a/base/1/data.tar.gz", "db-1-a/base/1/backup.info", "db-1-a/base/2/data.tar", "db-1-ab/base/3/backup.info", "db-2-a/wals/x",
		"db-1-a/wals/0000000100000000/000000010000000000000003.gz", "db-1-a/wals/0000000100000000/000000010000000000000004.partial",
		"db-1-a/wals/0000000100000000/000000010000000000000005.00000028.backup")
	servers, err := s.Servers(t.Context(), "db-1-")
	if err != nil || !slices.Equal(servers, []string{"db-1-a", "db-1-ab"}) {
		t.Errorf("servers %q, %v", servers, err)
	}
	if size, err := s.BackupSize(t.Context(), "db-1-a", "1"); err != nil || size != 14 {
		t.Errorf("its size is %d, %v", size, err)
	}
	if _, err := s.BackupSize(t.Context(), "db-1-a", "2"); !errors.Is(err, barman.ErrMissing) {
		t.Errorf("a backup without its end: %v", err)
	}
	for segment, want := range map[string]bool{"000000010000000000000003": true, "000000010000000000000004": false, "000000010000000000000005": false} {
		if there, err := s.HasSegment(t.Context(), "db-1-a", segment); err != nil || there != want {
			t.Errorf("%s: %v, %v", segment, there, err)
		}
	}
	if last, err := s.LastArchived(t.Context(), "db-1-ab"); err != nil || !last.IsZero() {
		t.Errorf("nothing was archived, the last at %v, %v", last, err)
	}
}

// TestDrop: only what is meant goes, of all timelines what is older, and histories stay.
func TestDrop(t *testing.T) {
	t.Parallel()
	s, bucket := open(t)
	kept := []string{
		"db-1-a/wals/00000002.history", "db-1-a/wals/0000000100000000/000000010000000000000003", "db-1-a/wals/0000000200000000/000000020000000000000004.gz",
		"db-1-a/base/2/backup.info", "db-1-ab/base/1/backup.info",
	}
	fill(t, s, kept...)
	fill(t, s, "db-1-a/wals/0000000100000000/000000010000000000000002.gz", "db-1-a/wals/0000000200000000/000000020000000000000001", "db-1-a/base/1/backup.info", "db-1-a/base/1/data.tar")
	ctx := t.Context()
	if err := s.DropSegments(ctx, "db-1-a", "not a segment", time.Now()); err == nil {
		t.Error("files were removed from before nothing")
	}
	young := time.Now().Add(-time.Hour)
	if err := errors.Join(s.DropSegments(ctx, "db-1-a", "000000020000000000000003", young), s.DropBackup(ctx, "db-1-a", "1"), s.DropBackup(ctx, "db-1-a", "1")); err != nil {
		t.Error(err)
	}
	mustBe(t, bucket, append([]string{"db-1-a/wals/0000000100000000/000000010000000000000002.gz", "db-1-a/wals/0000000200000000/000000020000000000000001"}, kept...)...)
	if err := s.DropSegments(ctx, "db-1-a", "000000020000000000000003", time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	mustBe(t, bucket, kept...)
	if err := s.DropServer(ctx, "db-1-a"); err != nil {
		t.Error(err)
	}
	mustBe(t, bucket, "db-1-ab/base/1/backup.info")
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]barman.Options{
		"only s3://":     {Destination: "https://example.com/x", AccessKey: "a", SecretKey: "b"},
		"s3Credentials":  {Destination: "s3://bucket/x"},
		"no certificate": {Destination: "s3://bucket/x", AccessKey: "a", SecretKey: "b", CA: []byte("nothing")},
	} {
		if _, err := barman.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
