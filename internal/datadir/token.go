package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ReadOrMakeToken returns the token in the file, making one when there is none.
// The file comes before the row: a crash in between leaves a token that the
// next start records, never a recorded token that nobody knows.
func ReadOrMakeToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil {
		return strings.TrimSpace(string(text)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make token: %w", err)
	}
	token := hex.EncodeToString(raw)
	if err := WriteFile(path, token+"\n"); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return token, nil
}

// WriteFile makes the file appear whole or not at all, with mode 0600.
func WriteFile(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
