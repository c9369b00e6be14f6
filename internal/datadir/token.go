package datadir

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"steward/internal/durable"
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
	if err := durable.WriteFile(path, []byte(token+"\n")); err != nil {
		return "", fmt.Errorf("write %s: %w", path, err)
	}
	return token, nil
}
