// Package state keeps what was done for clusters and their nodes in files. No secret
// is in them but for the password that templates are made with.
package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"steward/internal/durable"
	"steward/internal/process"
)

// Read reads a file. found is false when there is none.
func Read[T any](path string) (value T, found bool, err error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return value, false, nil
	}
	if err != nil {
		return value, false, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if err := json.Unmarshal(content, &value); err != nil {
		return value, true, fmt.Errorf("read %s: %w", path, err)
	}
	return value, true, nil
}

// Write replaces a file. It is on the disk when Write returns.
func Write(path string, value any) error {
	content, err := encode(path, value)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, content)
}

// WriteSoon replaces a file without waiting for the disk: after a power failure it may
// be torn.
func WriteSoon(path string, value any) error {
	content, err := encode(path, value)
	if err != nil {
		return err
	}
	return process.WriteFile(path, content, 0o600)
}

func encode(path string, value any) ([]byte, error) {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return append(content, '\n'), nil
}
