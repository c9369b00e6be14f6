package seal

import (
	"bytes"
	"context"
	"time"

	"gocloud.dev/secrets"
)

// renewal is how often a process that seals looks whether its key service has a
// newer key: often enough for a rotation, and rarely enough to cost nothing.
const renewal = time.Minute

// service is a key service behind a URL.
type service struct {
	*secrets.Keeper
	renewal time.Duration
}

func (s *service) wrap(ctx context.Context, key []byte) ([]byte, error) { return s.Encrypt(ctx, key) }

func (s *service) unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	return s.Decrypt(ctx, wrapped)
}

// version is that of Vault's transit engine, which writes vault:v3:…; other
// services don't tell.
func (*service) version(wrapped []byte) string {
	parts := bytes.SplitN(wrapped, []byte(":"), 3)
	if len(parts) != 3 || string(parts[0]) != "vault" {
		return ""
	}
	return string(parts[1])
}

func (s *service) stale(wrapped []byte, since time.Time) bool {
	return s.version(wrapped) != "" && time.Since(since) >= s.renewal
}
