package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"steward/internal/archive"
	"steward/internal/config"
	"steward/internal/reseal"
	"steward/internal/seal"
	"steward/internal/wait"
)

// RotateOptions say which server's master key is changed, and how far.
type RotateOptions struct {
	// Data is the server's folder, Store its store unless that is its own, Archive
	// the bucket unless it is the configured one.
	Data, Store, Archive string
	config.Config
	// Introduce only adds a new key that opens; Retire removes the old ones.
	Introduce, Retire bool
	// Grace is how long Retire waits for what servers have under way: values that
	// were sealed before the key changed and are written after.
	Grace time.Duration
	// Out is told what is done.
	Out io.Writer
}

// rotation is one command's run.
type rotation struct {
	RotateOptions
	// file is nil with a key service by URL.
	file    *seal.KeyFile
	access  *Access
	archive *archive.Archive
	rotator *reseal.Rotator
}

// RotateSeal changes the master key of a server's secrets while servers run. It
// goes on where it was killed.
func RotateSeal(ctx context.Context, o RotateOptions) error {
	p, err := usedPaths(o.Data, o.Config)
	if err != nil {
		return err
	}
	r := rotation{RotateOptions: o}
	if r.access, err = openSealedAccess(ctx, p, o.Store, o.Config); err != nil {
		return err
	}
	defer r.access.Close(ctx)
	ctx, release, err := r.lease(ctx)
	if err != nil {
		return err
	}
	defer release()
	if o.Seal.URL == "" {
		if r.file, err = seal.ReadKeyFile(p.SealKey()); err != nil {
			return err
		}
	}
	if o.Introduce {
		return r.introduce()
	}
	if r.archive, err = p.OpenArchive(ctx, o.Config, o.Archive, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	defer func() { _ = r.archive.Close() }() // each write was waited for
	r.rotator = &reseal.Rotator{Store: r.access.store, Archive: r.archive, Sealer: r.access.sealer, Tell: r.pace()}
	return r.rotate(ctx)
}

// lease waits a little for another one: the store lets go of one that was killed when it
// notices that its connection has ended.
func (r *rotation) lease(ctx context.Context) (leased context.Context, release func(), err error) {
	const patience, pause = 10 * time.Second, 100 * time.Millisecond
	for began := time.Now(); ; {
		leased, release, ok, err := r.access.store.LeaseRotation(ctx)
		switch {
		case err != nil:
			return nil, nil, err
		case ok:
			return leased, release, nil
		case time.Since(began) > patience:
			return nil, nil, errors.New("another `steward seal rotate` runs on this store")
		}
		if err := wait.Sleep(ctx, pause); err != nil {
			return nil, nil, err
		}
	}
}

func (r *rotation) introduce() error {
	switch {
	case r.file == nil:
		return errors.New("the key service makes new keys itself; rotate the key there, and then run `steward seal rotate`")
	case r.file.Introduced():
		fmt.Fprintln(r.Out, "A new key was introduced before.")
		return nil
	case len(r.file.IDs()) > 1:
		return errors.New("another rotation isn't finished: `steward seal rotate --retire` removes the old key")
	}
	if err := r.file.Introduce(); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "Key %s is in the key file, and seals nothing yet. Take the file to all servers of this store, and keep a copy;\nthen run `steward seal rotate`.\n", r.file.IDs()[1])
	return nil
}

func (r *rotation) rotate(ctx context.Context) error {
	if done, err := r.change(ctx); err != nil || done {
		return err
	}
	if _, err := r.reseal(ctx); err != nil {
		return err
	}
	if !r.Retire {
		fmt.Fprintln(r.Out, r.next())
		return nil
	}
	if err := r.await(ctx); err != nil {
		return err
	}
	return r.retire()
}

// change lets a new key seal, unless one does already whose rotation goes on.
func (r *rotation) change(ctx context.Context) (done bool, err error) {
	if r.file == nil {
		version, err := r.access.sealer.InUse(ctx)
		if err == nil && version == "" {
			err = errors.New("this key service doesn't tell its keys apart, so nothing can be rotated")
		}
		if err == nil {
			fmt.Fprintf(r.Out, "The key service seals with key %s.\n", version)
		}
		return false, err
	}
	ids := r.file.IDs()
	switch {
	case r.Retire && r.file.Introduced():
		return false, errors.New("the new key isn't in use yet: run `steward seal rotate` first")
	case r.Retire && len(ids) == 1:
		fmt.Fprintf(r.Out, "There is only one key, %s: nothing to retire.\n", ids[0])
		return true, nil
	case len(ids) > 1 && !r.file.Introduced():
		fmt.Fprintf(r.Out, "Key %s seals; %s only opens.\n", ids[0], strings.Join(ids[1:], ", "))
		return false, nil
	}
	if err := r.file.Activate(); err != nil {
		return false, err
	}
	ids = r.file.IDs()
	fmt.Fprintf(r.Out, "Key %s is new, and seals from now on; %s still opens. Keep a copy of the key file now.\n", ids[0], strings.Join(ids[1:], ", "))
	return false, nil
}

// reseal seals all anew and tells how many values needed it.
func (r *rotation) reseal(ctx context.Context) (resealed int, err error) {
	t, err := r.rotator.Run(ctx)
	if err != nil {
		return t.Resealed, err
	}
	for _, place := range t.Foreign {
		fmt.Fprintf(r.Out, "%s opens with no key that is known here, and was left as it is.\n", place)
	}
	fmt.Fprintf(r.Out, "%d values were sealed anew; all %d were looked at.\n", t.Resealed, t.Values)
	if len(t.Stuck) > 0 {
		return t.Resealed, fmt.Errorf("damaged values still depend on the old key: %s", strings.Join(t.Stuck, ", "))
	}
	return t.Resealed, nil
}

// next is what the operator does then.
func (r *rotation) next() string {
	if r.file == nil {
		return "Nothing depends on older keys. When `steward seal rotate --retire` has proven it once more, they can be disabled in the key service."
	}
	return "Next: `steward seal rotate --retire` removes the old key, once nothing depends on it."
}

// await lets servers finish what they have under way, until nothing came of it
// that depends on an old key.
func (r *rotation) await(ctx context.Context) error {
	for {
		fmt.Fprintf(r.Out, "Waiting %s for what servers have under way.\n", r.Grace)
		if err := wait.Sleep(ctx, r.Grace); err != nil {
			return err
		}
		if late, err := r.reseal(ctx); err != nil || late == 0 {
			return err
		}
	}
}

func (r *rotation) retire() error {
	if r.file == nil {
		fmt.Fprintln(r.Out, "Nothing depends on older keys: they can be disabled in the key service.")
		return nil
	}
	old := r.file.IDs()[1:]
	if err := r.file.Retire(); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "Nothing depends on key %s any more, and the key file doesn't have it. Backups from now on need key %s alone.\n",
		strings.Join(old, ", "), r.file.IDs()[0])
	return nil
}

// pace tells how far it is, once a second.
func (r *rotation) pace() func(reseal.Tally) {
	last := time.Now()
	return func(t reseal.Tally) {
		if time.Since(last) >= time.Second {
			last = time.Now()
			fmt.Fprintf(r.Out, "%d values looked at, %d sealed anew …\n", t.Values, t.Resealed)
		}
	}
}
