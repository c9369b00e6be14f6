package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"steward/internal/archive"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/seal"
	"steward/internal/store"
)

// Archive is what is asked of the place where records are kept: an archive.Archive.
type Archive interface {
	SaveRecovery(ctx context.Context, of cluster.ID, sealed []byte) error
	Recovery(ctx context.Context, of cluster.ID) ([]byte, error)
}

// Keeper keeps the records in the archive what the store says. It is safe for
// concurrent use.
type Keeper struct {
	store   *store.Store
	archive Archive
	sealer  store.Sealer

	mu sync.Mutex
	// kept are the generations whose records are known to be in the archive.
	kept map[cluster.ID]int64
}

// NewKeeper makes a Keeper. The sealer is the store's own.
func NewKeeper(s *store.Store, a Archive, sealer store.Sealer) *Keeper {
	return &Keeper{store: s, archive: a, sealer: sealer, kept: map[cluster.ID]int64{}}
}

// Save puts a database's record into the archive, unless the same is there.
func (k *Keeper) Save(ctx context.Context, id cluster.ID) error {
	content, err := k.gather(ctx, id)
	if err != nil {
		return err
	}
	same, err := k.holds(ctx, id, content)
	if err != nil || same {
		return err
	}
	return k.write(ctx, id, content)
}

// Reseal seals a database's record anew, with the master key that is in use. A
// server may save a newer one at the same time, and have it overwritten by this
// one: so what the store says is saved once more afterwards.
func (k *Keeper) Reseal(ctx context.Context, id cluster.ID) error {
	content, err := k.gather(ctx, id)
	if err != nil {
		return err
	}
	if err := k.write(ctx, id, content); err != nil {
		return err
	}
	failpoint.Here("recovery: record sealed anew")
	return k.Save(ctx, id)
}

func (k *Keeper) gather(ctx context.Context, id cluster.ID) ([]byte, error) {
	r, err := gather(ctx, k.store, id)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the recovery record of database %d: %w", id, err)
	}
	return content, nil
}

func (k *Keeper) write(ctx context.Context, id cluster.ID, content []byte) error {
	sealed, err := k.sealer.Seal(ctx, content, Place(id))
	if err != nil {
		return fmt.Errorf("seal the recovery record of database %d: %w", id, err)
	}
	return k.archive.SaveRecovery(ctx, id, sealed)
}

// holds reports whether the archive has exactly this. Sealed twice, the same looks
// different, and what another key sealed is of no use here.
func (k *Keeper) holds(ctx context.Context, id cluster.ID, content []byte) (bool, error) {
	sealed, err := k.archive.Recovery(ctx, id)
	if errors.Is(err, archive.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	old, err := k.sealer.Unseal(ctx, sealed, Place(id))
	if errors.Is(err, seal.ErrUnreadable) {
		return false, nil
	}
	return bytes.Equal(old, content), err
}

// Current reports whether a database's record is known to be in the archive as c is; that is asked of nobody.
func (k *Keeper) Current(c cluster.Cluster) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[c.ID] == c.Generation
}

// Refresh is Save for a database that may have changed since the last time:
// nothing is asked of the archive when it hasn't.
func (k *Keeper) Refresh(ctx context.Context, c cluster.Cluster) error {
	if k.Current(c) {
		return nil
	}
	if err := k.Save(ctx, c.ID); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[c.ID] = c.Generation
	return nil
}
