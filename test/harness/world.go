package harness

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"steward/internal/testdir"
)

// Leftovers is nil when no database server, folder or cgroup of the data folder
// remains; use it once every database is deleted.
func (s *Server) Leftovers() error {
	var errs []error
	entries, err := os.ReadDir(filepath.Join(s.Data, "clusters"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		var within []string
		_ = filepath.WalkDir(filepath.Join(s.Data, "clusters", e.Name()), func(path string, _ fs.DirEntry, _ error) error {
			within = append(within, path)
			return nil
		})
		errs = append(errs, fmt.Errorf("folder clusters/%s remains with %d entries: %q", e.Name(), len(within), within[:min(len(within), 10)]))
	}
	for pid, line := range s.Processes() {
		if strings.Contains(line, filepath.Join(s.Data, "clusters")) {
			errs = append(errs, fmt.Errorf("process %d remains: %s", pid, line))
		}
	}
	return errors.Join(errs...)
}

// Processes are the processes whose command line names the data folder.
func (s *Server) Processes() map[int]string {
	found := map[int]string{}
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(text, []byte(s.Data)) {
			continue
		}
		pid, _ := strconv.Atoi(strings.Split(path, "/")[2])
		found[pid] = string(bytes.ReplaceAll(text, []byte{0}, []byte{' '}))
	}
	return found
}

// FilesWith lists the files below dir that contain the text.
func FilesWith(t testing.TB, dir, text string) []string {
	t.Helper()
	var found []string
	err := testdir.Walk(dir, func(path string, entry fs.DirEntry) error {
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
