package archive_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/internal/archive"
)

func TestSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := archive.Open(t.Context(), archive.Options{URL: "file://" + dir})
	if err != nil {
		t.Fatal(err)
	}
	key, err := archive.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	one := archive.Segment{Cluster: 7, ArchiveID: "0123456789abcdef", Name: "000000010000000000000001"}
	history := archive.Segment{Cluster: 7, ArchiveID: one.ArchiveID, Name: "00000002.history"}
	content := strings.Repeat("what a server wrote", 10000)
	binlog := archive.Segment{Cluster: 7, ArchiveID: "origin", Name: "00000001.000000000000002A.0000010000000000"}
	for _, w := range []archive.Segment{one, history, binlog} {
		if err := a.PutSegment(ctx, w, key, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.PutSegment(ctx, one, key, strings.NewReader("another node's")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := a.GetSegment(ctx, one, key, &out); err != nil || out.String() != content {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	all, err := a.ListSegments(ctx, 7)
	if err != nil || len(all) != 3 || all[0].ArchiveID != one.ArchiveID || all[0].Modified.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
	if backups, err := a.List(ctx); err != nil || len(backups) != 0 {
		t.Errorf("taken for backups: %+v, %v", backups, err)
	}
	for _, bad := range []archive.Segment{{Cluster: 7, ArchiveID: "..", Name: "x"}, {Cluster: 7, ArchiveID: "a", Name: "../x"}, {Cluster: 7, ArchiveID: "a"}} {
		if err := a.PutSegment(ctx, bad, key, strings.NewReader("")); err == nil {
			t.Errorf("archived: %+v", bad)
		}
	}
	file := filepath.Join(dir, "clusters/7/wal", one.ArchiveID, one.Name+".zst.age")
	stored, err := os.ReadFile(file)
	if err != nil || bytes.Contains(stored, []byte("what a server")) || len(stored) > len(content)/10 {
		t.Errorf("%d bytes are stored, %v", len(stored), err)
	}
	stored[len(stored)/2] ^= 1
	if err := os.WriteFile(file, stored, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.GetSegment(ctx, one, key, &out); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("damaged: %v", err)
	}
	if err := a.DeleteSegments(ctx, all...); err != nil {
		t.Fatal(err)
	}
	if err := a.GetSegment(ctx, one, key, &out); !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}
