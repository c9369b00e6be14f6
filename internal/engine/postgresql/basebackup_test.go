package postgresql

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"steward/internal/engine"
)

func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := make([]byte, h.Size)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil { // without an end marker, as servers send it
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUntar(t *testing.T) {
	dir := t.TempDir()
	content := archive(t,
		tar.Header{Name: "backup_label", Typeflag: tar.TypeReg, Size: 600, Mode: 0o644},
		tar.Header{Name: "./pg_wal/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./pg_wal", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "pg_wal/000000010000000000000001", Typeflag: tar.TypeReg, Size: 100_000, Mode: 0o644},
		tar.Header{Name: "empty", Typeflag: tar.TypeReg})
	if err := engine.Untar(bytes.NewReader(content), dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct {
		mode os.FileMode
		size int64
	}{"backup_label": {0o600, 600}, "pg_wal": {os.ModeDir | 0o700, -1}, "pg_wal/000000010000000000000001": {0o600, 100_000}, "empty": {0o600, 0}} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want.mode || want.size >= 0 && info.Size() != want.size {
			t.Errorf("%s has mode %v and %d bytes", name, info.Mode(), info.Size())
		}
	}
}

func TestUntarRefuses(t *testing.T) {
	whole := archive(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 5000})
	for name, content := range map[string][]byte{
		"a way out":         archive(t, tar.Header{Name: "../out", Typeflag: tar.TypeReg, Size: 1}),
		"an absolute path":  archive(t, tar.Header{Name: "/tmp/out", Typeflag: tar.TypeReg, Size: 1}),
		"a link":            archive(t, tar.Header{Name: "pg_tblspc/16384", Typeflag: tar.TypeSymlink, Linkname: "/tmp"}),
		"an archive cut":    whole[:2000],
		"a header cut":      whole[:100],
		"a missing folder":  archive(t, tar.Header{Name: "no/file", Typeflag: tar.TypeReg, Size: 1}),
		"no archive at all": bytes.Repeat([]byte("x"), 1024),
	} {
		if err := engine.Untar(bytes.NewReader(content), t.TempDir()); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func FuzzUntar(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 1024))
	f.Fuzz(func(t *testing.T, content []byte) {
		parent := t.TempDir()
		dir := filepath.Join(parent, "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := engine.Untar(bytes.NewReader(content), dir); err != nil {
			t.Log(err)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
			t.Errorf("files outside: %v, %v", entries, err)
		}
	})
}

func TestWALSpan(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"0000000100000000000000FE", "0000000100000000000000FF", "000000010000000100000000", "000000010000000100000001",
		"00000002.history", "000000020000000100000000", "archive_status",
	} {
		write(t, dir, name, nil)
	}
	const size = 16 << 20
	got, err := walSpan{"0000000100000000000000FF", "000000010000000100000000", size}.files(dir)
	if want := []string{"pg_wal/0000000100000000000000FF", "pg_wal/000000010000000100000000", "pg_wal/00000002.history"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for name, bad := range map[string]walSpan{
		"one that is gone":   {"0000000100000000000000FD", "0000000100000000000000FF", size},
		"one not there yet":  {"000000010000000100000000", "000000010000000100000002", size},
		"one between":        {"0000000100000000000000FE", "000000010000000100000001", 4 << 20},
		"two timelines":      {"0000000100000000000000FE", "000000020000000100000000", size},
		"the wrong way":      {"000000010000000100000000", "0000000100000000000000FE", size},
		"no name":            {"", "0000000100000000000000FE", size},
		"files of no length": {"0000000100000000000000FE", "0000000100000000000000FE", 0},
	} {
		if files, err := bad.files(dir); err == nil {
			t.Errorf("%s: %v", name, files)
		}
	}
}

func TestPrepareReplica(t *testing.T) {
	primary, dir := stopped(t, 288), stopped(t, 288)
	for _, d := range []string{primary, dir} {
		if err := (Driver{}).RegenerateIdentity(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	// A server runs there by now.
	write(t, primary, "postmaster.pid", nil)
	for range 2 {
		if err := (Driver{}).PrepareReplica(t.Context(), primary, dir); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, primary, "global/pg_control"), read(t, dir, "global/pg_control")) {
			t.Error("the control files differ")
		}
		if !bytes.Equal(read(t, primary, "pg_wal/000000010000000000000001"), read(t, dir, "pg_wal/000000010000000000000001")) {
			t.Error("the WAL differs")
		}
	}
	if err := (Driver{}).PrepareReplica(t.Context(), dir, primary); err == nil {
		t.Error("the data of a running server is changed")
	}
	if err := (Driver{}).PrepareReplica(t.Context(), stopped(t, 296), dir); err == nil {
		t.Error("a replica of another version is prepared")
	}
	if err := (Driver{}).PrepareReplica(t.Context(), t.TempDir(), dir); err == nil {
		t.Error("a replica of nothing is prepared")
	}
}
