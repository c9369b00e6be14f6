package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"steward/internal/process"
)

// note goes with a template and its clones until they are bootstrapped: the
// password that our own account still has in them.
type note struct {
	Password string `json:"password"`
	// Maker is the program that made the template: another one may do it differently.
	Maker string `json:"maker"`
}

func noteFile(dir string) string { return filepath.Join(dir, "template.json") }

// readNote is empty when there is none.
func readNote(dir string) (note, error) {
	var n note
	content, err := os.ReadFile(noteFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return n, fmt.Errorf("read note of the template: %w", err)
	}
	if err := json.Unmarshal(content, &n); err != nil {
		return n, fmt.Errorf("read note of the template: %w", err)
	}
	return n, nil
}

func (n note) write(dir string) error {
	content, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("write note of the template: %w", err)
	}
	return process.WriteFile(noteFile(dir), content, 0o600)
}

func removeNote(dir string) error {
	if err := os.Remove(noteFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove note of the template: %w", err)
	}
	return nil
}

// maker names the running program by its content, so that another steward
// makes its templates anew.
func maker() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the running program: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read the running program: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
