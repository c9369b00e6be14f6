package process

import (
	"os"
	"path/filepath"
)

// FindGroupsIn is FindGroups with a table of mounts of the test's.
func FindGroupsIn(table, name string) (*Groups, error) {
	dir, err := os.MkdirTemp("", "mounts-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "mounts")
	if err := os.WriteFile(file, []byte(table), 0o600); err != nil {
		return nil, err
	}
	return findGroups(file, name)
}
