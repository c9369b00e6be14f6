package control

import (
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/platform"
	"steward/internal/store"
)

// forkRoom is how much of a plan's disk, in percent, what is forked may take: at
// more the disk guard would hold from the beginning.
const forkRoom = 90

// forkFaults is what is wrong with a request to make a database of another
// one's backup; nothing when that wasn't asked for.
func (s *Clusters) forkFaults(ctx context.Context, p account.Principal, spec cluster.Spec) (fault.Faults, error) {
	if spec.Fork == nil {
		return nil, nil
	}
	if !s.Backups {
		return fault.Faults{fault.NewInvalid("fork", "Backups are not available on this platform")}, nil
	}
	source, err := s.View(ctx, p, "", spec.Fork.Source)
	if fault.IsKind(err, fault.NotFound) {
		return fault.Faults{fault.NewInvalid("fork.source", "There is no such database")}, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := s.Store.BackupsOf(ctx, source.ID)
	if err != nil {
		return nil, fmt.Errorf("list the backups of database %d: %w", source.ID, err)
	}
	found := sameKind(spec, source)
	good := backup.ForkFrom(all, nil)
	if len(good) == 0 {
		found.Add("fork.source", "The database has no backup that can be restored; take one first")
		return found, nil
	}
	chosen, err := s.chosen(ctx, all, spec)
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		found = append(found, s.noSuchMoment(good))
		return found, nil
	}
	return append(found, s.forkFits(spec, chosen[0])...), nil
}

// sameKind: a copy of the files can be read by the same server only, and with
// the same encryption.
func sameKind(spec cluster.Spec, source cluster.Cluster) fault.Faults {
	var found fault.Faults
	if spec.EngineID() != source.EngineID() {
		found.Add("engine", "Must be %s, which is the source's", source.EngineID())
	}
	if spec.Encrypted != source.Encrypted {
		found.Add("encrypted", "Must be %t, as it is for the source", source.Encrypted)
	}
	return found
}

// chosen are the backups that serve the moment asked for: its own, or where files
// are archived, those that were complete by then.
func (s *Clusters) chosen(ctx context.Context, all []backup.Backup, spec cluster.Spec) ([]backup.Backup, error) {
	moment := spec.Fork.RestoreTime
	exact := backup.ForkFrom(all, moment)
	if len(exact) > 0 || !s.Continuous || moment.After(s.Now()) {
		return exact, nil
	}
	restored, err := s.Store.LastRestore(ctx, spec.Fork.Source, *moment)
	if err != nil {
		return nil, fmt.Errorf("look for restores of database %d: %w", spec.Fork.Source, err)
	}
	return backup.RecoverFrom(all, *moment, restored), nil
}

func (s *Clusters) noSuchMoment(good []backup.Backup) *fault.Fault {
	const layout = "2006-01-02T15:04:05"
	if s.Continuous {
		// The first whole second by which the oldest backup was complete.
		since := good[len(good)-1].Finished.Truncate(time.Second).Add(time.Second)
		return fault.NewInvalid("fork.restore_time", "Must be a backup's created, or from %s to now, %s; after a restore, from the next backup on",
			since.UTC().Format(layout), s.Now().UTC().Format(layout))
	}
	newest, oldest := good[0].Created.UTC().Format(layout), good[len(good)-1].Created.UTC().Format(layout)
	which := fmt.Sprintf("restore_time can be a backup's created, from %s to %s", oldest, newest)
	if len(good) == 1 {
		which = "restore_time can be a backup's created: " + newest
	}
	return fault.NewInvalid("fork.restore_time", "A point in time isn't available here; %s", which)
}

func (s *Clusters) forkFits(spec cluster.Spec, b backup.Backup) fault.Faults {
	plan, known := s.Catalog.Plan(spec.Type)
	if !known || b.Bytes <= plan.DiskBytes()/100*forkRoom {
		return nil
	}
	const gigabyte = 1 << 30
	return fault.Faults{fault.NewInvalid("type", "Must have more disk: the backup has %d GB, and %s has %d GB",
		(b.Bytes+gigabyte-1)/gigabyte, spec.Type, plan.DiskGB())}
}

// forkSecrets adds what of the source's the data can't be read without: pages
// stay encrypted under the key they were written with, of which the fork has its
// own sealed copy.
func (s *Clusters) forkSecrets(ctx context.Context, spec cluster.Spec, secrets map[platform.SecretName][]byte) error {
	if spec.Fork == nil || !spec.Encrypted {
		return nil
	}
	key, err := s.Store.Secret(ctx, spec.Fork.Source, platform.AtRestKey)
	if err != nil {
		return fmt.Errorf("at-rest key of database %d: %w", spec.Fork.Source, err)
	}
	secrets[platform.AtRestKey] = key
	return nil
}

// sourceThere demands, in the transaction that makes the fork, that the source
// hasn't been deleted since it was looked at.
func sourceThere(ctx context.Context, tx *store.Tx, p account.Principal, f *cluster.Fork) error {
	if f == nil {
		return nil
	}
	_, err := tx.Cluster(ctx, store.ViewerOf(p), "", f.Source)
	if fault.IsKind(err, fault.NotFound) {
		return fault.NewInvalid("fork.source", "There is no such database")
	}
	return err
}
