package archive_test

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"steward/internal/archive"
	"steward/internal/cluster"
	"steward/internal/platform"
)

// TestNothingIsOpenToOthers: in a folder that others can enter they find nothing
// that they can read, whatever the process's mask says.
func TestNothingIsOpenToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := open(t, "file://"+dir)
	m := archive.Manifest{Cluster: 7, Backup: 1, Database: "shop", Engine: cluster.PostgreSQL, Series: "15", Created: time.Now()}
	_, err := a.Put(t.Context(), m, newKey(t), func(out io.Writer) (platform.Copy, error) {
		_, err := out.Write(content(300 << 10))
		return platform.Copy{}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.SaveRecovery(t.Context(), 7, []byte("sealed")); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			files++
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 3 {
		t.Errorf("%d files, %v", files, err)
	}
}
