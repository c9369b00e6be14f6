package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// record is what a pid file holds.
type record struct {
	Pid int `json:"pid"`
	// Start is in clock ticks since boot, Boot the boot's id.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"`
	Mark  string `json:"mark"`
	// Walled reports whether the pid is that of the wall around the server.
	Walled bool `json:"walled,omitempty"`
}

func (r record) write(path string) error {
	content, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	if err := WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("write pid file: %w", err)
	}
	return nil
}

// readRecord is false when there is no file, or one that tells of nothing:
// torn by a crash of the machine, after which nothing runs anyway.
func readRecord(path string) (record, bool, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, fmt.Errorf("read pid file: %w", err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil || r.Pid <= 1 {
		return record{}, false, nil
	}
	return r, true, nil
}

// WriteFile puts a file in place whole or not at all, as far as processes that
// die are concerned. It doesn't wait for the disk.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
