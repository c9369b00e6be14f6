package watch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/store"
)

// change is a new status of a service that is to be recorded.
type change struct {
	monitor.Change
	entry      *entry
	generation int64
	// tries counts how often recording it failed.
	tries int
}

// Bounds on what is recorded in one transaction, and on how often a change that
// the store refuses is tried while it takes others.
const (
	changesAtOnce = 100
	mostTries     = 5
)

// record writes what waits: changes first, then results that are due by now.
func (k *keeper) record(ctx context.Context, now time.Time) {
	if k.self.ID == "" {
		return
	}
	k.mu.Lock()
	waiting := k.changes
	k.changes = nil
	blocks := k.samples.due(now)
	k.mu.Unlock()
	k.recordCertificates(ctx)
	// In the order of accounts, whose issues are locked: two servers can't wait for
	// each other.
	slices.SortStableFunc(waiting, func(a, b change) int { return cmp.Compare(a.entry.Account, b.entry.Account) })
	failed := k.recordChanges(ctx, waiting)
	if len(blocks) > 0 {
		if err := k.Store.InTx(ctx, func(tx *store.Tx) error { return tx.AddBlocks(ctx, packed(blocks)) }); err != nil {
			k.Logger.Warn("Results of checks can't be recorded yet.", "error", err)
			k.mu.Lock()
			k.samples.back(blocks)
			k.mu.Unlock()
		}
	}
	k.mu.Lock()
	k.changes = append(failed, k.changes...)
	k.mu.Unlock()
}

// recordCertificates writes when the certificates end that were shown lately.
func (k *keeper) recordCertificates(ctx context.Context) {
	k.mu.Lock()
	waiting := k.certificates
	k.certificates = map[monitor.ServiceID]time.Time{}
	k.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	if err := k.Store.CertificatesShown(ctx, waiting); err != nil {
		k.Logger.Warn("Ends of certificates can't be recorded yet.", "error", err)
		k.mu.Lock()
		defer k.mu.Unlock()
		maps.Copy(waiting, k.certificates) // what is newer counts
		k.certificates = waiting
	}
}

// recordChanges returns those that are to be tried again.
func (k *keeper) recordChanges(ctx context.Context, waiting []change) (failed []change) {
	for some := range slices.Chunk(waiting, changesAtOnce) {
		err := k.recordSome(ctx, some)
		if err == nil {
			continue
		}
		if len(some) > 1 && ctx.Err() == nil { // one of them may be what is wrong
			for _, one := range some {
				failed = append(failed, k.recordChanges(ctx, []change{one})...)
			}
			continue
		}
		some[0].tries++
		if some[0].tries < mostTries || k.away || ctx.Err() != nil {
			failed = append(failed, some...)
			continue
		}
		k.Logger.Error("A change of a service can't be recorded and is dropped; its next check finds it again.", "service", some[0].entry.ID, "error", err)
		k.forget(some[0].entry)
	}
	return failed
}

// forget has a service be read anew.
func (k *keeper) forget(e *entry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.shards, e.ID.Shard())
	delete(k.entries, e.ID)
	k.last = store.Share{}
}

func (k *keeper) recordSome(ctx context.Context, some []change) error {
	epochs := map[int]int64{}
	k.mu.Lock()
	for _, c := range some {
		if s := k.shards[c.entry.ID.Shard()]; s != nil {
			epochs[c.entry.ID.Shard()] = s.epoch
		}
	}
	k.mu.Unlock()
	return k.Store.InTx(ctx, func(tx *store.Tx) error {
		held, err := tx.StillHeld(ctx, k.self, epochs)
		if err != nil {
			return err
		}
		for _, c := range some {
			if !held[c.entry.ID.Shard()] {
				continue // its new holder finds it as well
			}
			if err := k.recordOne(ctx, tx, c); err != nil {
				return fmt.Errorf("service %d is %s: %w", c.entry.ID, c.To, err)
			}
		}
		return nil
	})
}

// recordOne writes a service's new status, and opens or closes its issue. One that
// was changed, disabled or deleted meanwhile is left alone.
func (k *keeper) recordOne(ctx context.Context, tx *store.Tx, c change) error {
	found := c.Result
	done, err := tx.ServiceJudged(ctx, c.entry.ID, c.generation, c.To, found.Started, found.Detail)
	if err != nil || !done {
		return err
	}
	s, err := tx.Service(ctx, c.entry.Account, c.entry.ID)
	if fault.IsKind(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.To == monitor.Down {
		return k.Issues.Begin(ctx, tx, s, found)
	}
	return k.Issues.End(ctx, tx, s, found.Started)
}
