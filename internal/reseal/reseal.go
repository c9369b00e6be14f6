// Package reseal seals what lies in the store and beside the backups anew, with
// the master key that is in use, while servers go on reading and writing it. It
// keeps no account of how far it is: each value says itself which key it
// depends on, so that a pass that was killed is simply begun again.
package reseal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/archive"
	"steward/internal/cluster"
	"steward/internal/failpoint"
	"steward/internal/recovery"
	"steward/internal/seal"
	"steward/internal/store"
)

// Archive is what is asked of the place where recovery records are kept.
type Archive interface {
	recovery.Archive
	List(ctx context.Context) ([]archive.Stored, error)
}

// Rotator seals anew.
type Rotator struct {
	Store   *store.Store
	Archive Archive
	Sealer  *seal.Sealer
	// Tell is told how far it is, after each batch and each record.
	Tell func(Tally)
}

// Tally is what a pass has found so far.
type Tally struct {
	// Values were looked at, in the store and the archive; Resealed are those of
	// them that another key than the one in use had sealed, and Missed those that
	// somebody else wrote at the same moment.
	Values, Resealed, Missed int
	// Stuck name values that depend on an older key and don't open with it:
	// damaged ones. Foreign ones open with no key that is known here.
	Stuck, Foreign []string
}

// batch is how many values are read, and written in one transaction.
const batch = 100

// passes bounds Run: with every server using the same key two are enough.
const passes = 10

// errNeverEnds tells what keeps values from all being new.
var errNeverEnds = errors.New("values go on being sealed with another key: does each server have the new key file?")

// Run seals everything anew until a pass finds nothing more to do, and returns
// the tally of that pass, with what all of them have resealed.
func (r *Rotator) Run(ctx context.Context) (Tally, error) {
	resealed := 0
	for range passes {
		t, err := r.pass(ctx)
		resealed += t.Resealed
		if err != nil || t.Resealed+t.Missed == 0 {
			t.Resealed = resealed
			return t, err
		}
	}
	return Tally{Resealed: resealed}, errNeverEnds
}

// pass looks at everything once.
func (r *Rotator) pass(ctx context.Context) (Tally, error) {
	var t Tally
	version, err := r.Sealer.InUse(ctx)
	if err != nil {
		return t, fmt.Errorf("ask for the key in use: %w", err)
	}
	for _, in := range store.AllSealed {
		if err := r.table(ctx, in, version, &t); err != nil {
			return t, err
		}
	}
	return t, r.records(ctx, version, &t)
}

func (r *Rotator) table(ctx context.Context, in store.SealedIn, version string, t *Tally) error {
	last := store.SealedValue{In: in}
	for {
		values, err := r.Store.SealedAfter(ctx, last, batch)
		if err != nil {
			return fmt.Errorf("read sealed values: %w", err)
		}
		if len(values) == 0 {
			return nil
		}
		last = values[len(values)-1]
		old := r.judge(values, version, t)
		if err := r.values(ctx, old, t); err != nil {
			return err
		}
		r.Tell(*t)
	}
}

// judge returns the values that an older key has sealed.
func (r *Rotator) judge(values []store.SealedValue, version string, t *Tally) []store.SealedValue {
	t.Values += len(values)
	return slices.DeleteFunc(values, func(v store.SealedValue) bool {
		switch r.Sealer.Version(v.Value) {
		case version:
			return true
		case "":
			t.Foreign = append(t.Foreign, v.Place())
			return true
		}
		return false
	})
}

// values seals some anew. They are sealed before the transaction: a key service
// may take its time.
func (r *Rotator) values(ctx context.Context, old []store.SealedValue, t *Tally) error {
	fresh := make([][]byte, 0, len(old))
	var good []store.SealedValue
	for _, v := range old {
		sealed, err := r.reseal(ctx, v.Value, v.Place())
		switch {
		case errors.Is(err, seal.ErrUnreadable):
			t.Stuck = append(t.Stuck, v.Place())
		case err != nil:
			return err
		default:
			good, fresh = append(good, v), append(fresh, sealed)
		}
	}
	if len(good) == 0 {
		return nil
	}
	failpoint.Here("reseal: before a batch")
	done := 0
	err := r.Store.InTx(ctx, func(tx *store.Tx) error {
		done = 0
		for i, v := range good {
			was, err := tx.Reseal(ctx, v, fresh[i])
			if err != nil {
				return err
			}
			if was {
				done++
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write sealed values: %w", err)
	}
	t.Resealed, t.Missed = t.Resealed+done, t.Missed+len(good)-done
	return nil
}

// reseal seals the same value anew.
func (r *Rotator) reseal(ctx context.Context, sealed []byte, place string) ([]byte, error) {
	value, err := r.Sealer.Unseal(ctx, sealed, place)
	if err != nil {
		return nil, err
	}
	fresh, err := r.Sealer.Seal(ctx, value, place)
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", place, err)
	}
	return fresh, nil
}

// records are those beside the backups.
func (r *Rotator) records(ctx context.Context, version string, t *Tally) error {
	known, ids, err := r.clusters(ctx)
	if err != nil {
		return err
	}
	keeper := recovery.NewKeeper(r.Store, r.Archive, r.Sealer)
	for _, id := range ids {
		sealed, err := r.Archive.Recovery(ctx, id)
		if errors.Is(err, archive.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		t.Values++
		switch r.Sealer.Version(sealed) {
		case version:
			continue
		case "":
			t.Foreign = append(t.Foreign, recovery.Place(id))
			continue
		}
		if known[id] {
			err = keeper.Reseal(ctx, id)
		} else {
			err = r.stray(ctx, id, sealed)
		}
		if errors.Is(err, seal.ErrUnreadable) {
			t.Stuck = append(t.Stuck, recovery.Place(id))
			continue
		}
		if err != nil {
			return err
		}
		t.Resealed++
		r.Tell(*t)
	}
	return nil
}

// stray seals the record of a database that the store doesn't have: one that
// nobody else writes.
func (r *Rotator) stray(ctx context.Context, id cluster.ID, sealed []byte) error {
	fresh, err := r.reseal(ctx, sealed, recovery.Place(id))
	if err != nil {
		return err
	}
	return r.Archive.SaveRecovery(ctx, id, fresh)
}

// clusters are all that may have a record, and which of them the store has.
func (r *Rotator) clusters(ctx context.Context) (known map[cluster.ID]bool, all []cluster.ID, err error) {
	rows, err := r.Store.ClustersForWork(ctx)
	if err != nil {
		return nil, nil, err
	}
	known = map[cluster.ID]bool{}
	for _, c := range rows {
		known[c.ID] = true
		all = append(all, c.ID)
	}
	stored, err := r.Archive.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range stored {
		all = append(all, s.Cluster)
	}
	slices.Sort(all)
	return known, slices.Compact(all), nil
}
