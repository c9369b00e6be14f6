package harness

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"steward/internal/testdir"
)

// Backup is a backup as the API shows it.
type Backup struct {
	ID       int64   `json:"id"`
	Type     string  `json:"type"`
	Label    string  `json:"label"`
	State    string  `json:"state"`
	Created  string  `json:"created"`
	Verified *string `json:"verified"`
	Problem  *string `json:"problem"`
}

// Path is the backup's address in the API.
func (b Backup) Path(d Database) string { return fmt.Sprintf("%s/backups/%d", d.Path(), b.ID) }

// Backups lists a database's backups, the newest first.
func (s *Server) Backups(d Database) []Backup {
	s.t.Helper()
	var list struct {
		Data []Backup `json:"data"`
	}
	if status, body := s.Call("GET", d.Path()+"/backups", nil, &list); status != 200 {
		s.t.Fatalf("backups: %d %s", status, body)
	}
	return list.Data
}

// FindBackup is the database's backup of the label; false when there is none.
func (s *Server) FindBackup(d Database, label string) (Backup, bool) {
	s.t.Helper()
	all := s.Backups(d)
	i := slices.IndexFunc(all, func(b Backup) bool { return b.Label == label })
	if i < 0 {
		return Backup{}, false
	}
	return all[i], true
}

// Snapshot takes one and waits until it is complete.
func (s *Server) Snapshot(d Database, label, target string) Backup {
	s.t.Helper()
	body := map[string]any{"label": label, "target": target}
	if status, body := s.Call("POST", d.Path()+"/backups", body, nil); status != 200 {
		s.t.Fatalf("snapshot: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
	b, _ := s.FindBackup(d, label)
	if b.State != "complete" {
		s.t.Fatalf("snapshot: %+v", b)
	}
	return b
}

// Restore restores a backup and waits until the database is active again.
func (s *Server) Restore(d Database, b Backup) {
	s.t.Helper()
	if status, body := s.Call("POST", b.Path(d)+"/restore", nil, nil); status != 200 {
		s.t.Fatalf("restore: %d %s", status, body)
	}
	s.AwaitStatus(d, "active")
}

// Stored lists the files of the archive in the data folder whose names match.
func (s *Server) Stored(t testing.TB, name string) []string {
	t.Helper()
	var found []string
	err := testdir.Walk(filepath.Join(s.Data, "backups"), func(path string, entry fs.DirEntry) error {
		if match, err := filepath.Match(name, entry.Name()); err != nil || !match || entry.IsDir() {
			return err
		}
		found = append(found, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
