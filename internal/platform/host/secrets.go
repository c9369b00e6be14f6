package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"steward/internal/fault"
	"steward/internal/platform"
)

// keychain gives a pass over a cluster its secrets. Those that change only by
// this process's hand are remembered.
type keychain struct {
	d *Driver
	u *unit
	// offline asks nobody: a failover must not wait for the store.
	offline bool
}

// errNotRemembered is returned for a secret that only the store knows.
var errNotRemembered = errors.New("it isn't remembered")

// lasting reports whether nobody else changes a secret of the name while the
// cluster lives.
func lasting(name platform.SecretName) bool {
	return name == platform.AdminPassword || name == platform.CACert || name == platform.AtRestKey ||
		strings.HasPrefix(string(name), string(platform.Keyring))
}

// secret is one of the cluster's; nil when there is no keyring yet.
func (k keychain) secret(ctx context.Context, name platform.SecretName) ([]byte, error) {
	k.u.mu.Lock()
	value, known := k.u.secrets[name]
	k.u.mu.Unlock()
	if known {
		return value, nil
	}
	if k.offline {
		return nil, fmt.Errorf("secret %s: %w", name, errNotRemembered)
	}
	value, err := k.d.o.Secrets.Secret(ctx, k.u.id, name)
	if fault.IsKind(err, fault.NotFound) && strings.HasPrefix(string(name), string(platform.Keyring)) {
		value, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	if lasting(name) {
		k.u.remember(name, value)
	}
	return value, nil
}

// save keeps a secret in the store.
func (k keychain) save(ctx context.Context, name platform.SecretName, value []byte) error {
	if err := k.d.o.Secrets.SaveSecret(ctx, k.u.id, name, value); err != nil {
		return err
	}
	if lasting(name) {
		k.u.remember(name, value)
	}
	return nil
}

// recall has all remembered that a failover may need. Whoever is about to hold
// the unit's turn does so before: others must not wait for the store with them.
func (d *Driver) recall(ctx context.Context, u *unit, encrypted bool, members int) error {
	names := []platform.SecretName{platform.AdminPassword, platform.CACert}
	if encrypted {
		names = append(names, platform.AtRestKey)
		for ordinal := range members {
			names = append(names, keyringName(ordinal))
		}
	}
	keys := keychain{d: d, u: u}
	for _, name := range names {
		if _, err := keys.secret(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sealKeyrings seals what failovers have left to be sealed.
func (d *Driver) sealKeyrings(ctx context.Context, u *unit) error {
	top, err := d.topology(u.id)
	if err != nil {
		return err
	}
	keys := keychain{d: d, u: u}
	for ordinal := range top.Members {
		rec, err := readRecord(d.layout.node(u.id, ordinal))
		if err != nil || rec == nil || !rec.Encrypted {
			return err
		}
		eng, err := d.engine(rec.Engine)
		if err != nil {
			return err
		}
		content, err := eng.KeyringContent(d.bareNode(d.recorded(rec), d.installation(rec.Installation), top, ordinal))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		sealed, err := keys.secret(ctx, keyringName(ordinal))
		if err == nil && content != nil && !bytes.Equal(content, sealed) {
			err = keys.save(ctx, keyringName(ordinal), content)
		}
		if err != nil {
			return fmt.Errorf("seal the keyring of node %d: %w", ordinal, err)
		}
	}
	return nil
}
