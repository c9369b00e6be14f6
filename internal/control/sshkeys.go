package control

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/seal"
	"steward/internal/store"
)

// SSHKeys are the use cases of the key that support staff log in with to an
// account's machines.
type SSHKeys struct{ Deps }

// View is the account's public key, as a line of an authorized_keys file. The
// key pair is made at the first call.
func (s *SSHKeys) View(ctx context.Context, p account.Principal) (string, error) {
	if err := unrestricted(p); err != nil {
		return "", err
	}
	public, err := s.Store.SSHPublicKey(ctx, p.Account)
	if !fault.IsKind(err, fault.NotFound) {
		return public, err
	}
	key, err := newSSHKey(p.Account)
	if err != nil {
		return "", err
	}
	if err := s.Store.FirstSSHKey(ctx, p.Account, key); err != nil {
		return "", err
	}
	// Of several that were made at the same time the first one counts.
	return s.Store.SSHPublicKey(ctx, p.Account)
}

// newSSHKey makes an ed25519 key pair whose comment says whose service it is of.
func newSSHKey(of account.ID) (store.SSHKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return store.SSHKey{}, fmt.Errorf("make SSH key: %w", err)
	}
	comment := fmt.Sprintf("managed-service@steward-account-%d", of)
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return store.SSHKey{}, fmt.Errorf("encode SSH key: %w", err)
	}
	shown, err := ssh.NewPublicKey(public)
	if err != nil {
		return store.SSHKey{}, fmt.Errorf("encode SSH key: %w", err)
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(shown))) + " " + comment
	return store.SSHKey{Public: line, Private: seal.NewSecret(string(pem.EncodeToMemory(block)))}, nil
}
