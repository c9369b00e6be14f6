package store

import (
	"context"
	"fmt"

	"steward/internal/account"
	"steward/internal/seal"
	"steward/internal/store/dbsqlc"
)

// SSHKey is the key pair that support staff log in with to an account's
// machines, both halves as OpenSSH writes them.
type SSHKey struct {
	// Public is a line of an authorized_keys file.
	Public string
	// Private is a PEM block.
	Private seal.Secret
}

// FirstSSHKey keeps an account's key pair unless it has one already: one that
// another server made meanwhile stays.
func (q queries) FirstSSHKey(ctx context.Context, of account.ID, key SSHKey) error {
	sealed, err := q.sealer.Seal(ctx, []byte(key.Private.Reveal()), sshKeyPlace(of))
	if err != nil {
		return fmt.Errorf("seal SSH key: %w", err)
	}
	return classify(q.q.SSHKeyCreate(ctx, dbsqlc.SSHKeyCreateParams{
		AccountID: int64(of), Sealed: sealed, Public: key.Public, Created: q.now(),
	}))
}

// SSHPublicKey is the public half of an account's key pair; fault.NotFound
// while it has none.
func (q queries) SSHPublicKey(ctx context.Context, of account.ID) (string, error) {
	row, err := q.q.SSHKeyGet(ctx, int64(of))
	return row.Public, classify(err)
}

// SSHKey is an account's key pair, unsealed; fault.NotFound while it has none.
func (q queries) SSHKey(ctx context.Context, of account.ID) (SSHKey, error) {
	row, err := q.q.SSHKeyGet(ctx, int64(of))
	if err != nil {
		return SSHKey{}, classify(err)
	}
	private, err := q.sealer.Unseal(ctx, row.Sealed, sshKeyPlace(of))
	if err != nil {
		return SSHKey{}, fmt.Errorf("unseal SSH key: %w", err)
	}
	return SSHKey{row.Public, seal.NewSecret(string(private))}, nil
}

// sshKeyPlace is bound into the sealed half, so that it can't be moved to
// another account.
func sshKeyPlace(of account.ID) string { return fmt.Sprintf("account/%d/ssh", of) }
