package embeddedpg

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// newPassword is 128 random bits.
func newPassword() (string, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make password: %w", err)
	}
	return hex.EncodeToString(raw), nil
}
