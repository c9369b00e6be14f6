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
	"steward/internal/platform/host/state"
)

// keychain loads a cluster's secrets. It caches those that only this process changes.
type keychain struct {
	d  *Driver
	cs *clusterState
	// offline never asks the store: a failover must not wait for it.
	offline bool
}

func (d *Driver) keychain(cs *clusterState) keychain { return keychain{d: d, cs: cs} }

// errNotCached is returned for a secret that only the store knows.
var errNotCached = errors.New("it isn't cached")

// cacheable reports whether no other process changes a secret of the name while the
// cluster lives.
func cacheable(name platform.SecretName) bool {
	return name == platform.AdminPassword || name == platform.CACert || name == platform.AtRestKey ||
		strings.HasPrefix(string(name), string(platform.Keyring))
}

// secret returns one of the cluster's secrets; nil when there is no keyring yet.
func (k keychain) secret(ctx context.Context, name platform.SecretName) ([]byte, error) {
	k.cs.mu.Lock()
	value, known := k.cs.secrets[name]
	k.cs.mu.Unlock()
	if known {
		return value, nil
	}
	if k.offline {
		return nil, fmt.Errorf("secret %s: %w", name, errNotCached)
	}
	value, err := k.d.o.Secrets.Secret(ctx, k.cs.id, name)
	if fault.IsKind(err, fault.NotFound) && strings.HasPrefix(string(name), string(platform.Keyring)) {
		value, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	if cacheable(name) {
		k.cs.cacheSecret(name, value)
	}
	return value, nil
}

// save keeps a secret in the store.
func (k keychain) save(ctx context.Context, name platform.SecretName, value []byte) error {
	if err := k.d.o.Secrets.SaveSecret(ctx, k.cs.id, name, value); err != nil {
		return err
	}
	if cacheable(name) {
		k.cs.cacheSecret(name, value)
	}
	return nil
}

// cacheSecrets loads all secrets that a failover may need. Callers do so before they
// lock the cluster: nobody must wait for the store while holding the lock.
func (d *Driver) cacheSecrets(ctx context.Context, cs *clusterState, encrypted bool, size int) error {
	names := []platform.SecretName{platform.AdminPassword, platform.CACert}
	if encrypted {
		names = append(names, platform.AtRestKey)
		for ordinal := range size {
			names = append(names, keyringName(ordinal))
		}
	}
	keys := d.keychain(cs)
	for _, name := range names {
		if _, err := keys.secret(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sealKeyrings seals what failovers have left to be sealed.
func (d *Driver) sealKeyrings(ctx context.Context, cs *clusterState) error {
	top, err := d.topology(cs.id)
	if err != nil {
		return err
	}
	keys := d.keychain(cs)
	for ordinal := range top.Size {
		rec, err := state.ReadNode(d.layout.node(cs.id, ordinal))
		if err != nil || rec == nil || !rec.Encrypted {
			return err
		}
		eng, err := d.engine(rec.Engine)
		if err != nil {
			return err
		}
		content, err := eng.KeyringContent(d.engineNode(d.recordedWanted(rec), d.installation(rec.Installation), top, ordinal))
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
