package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/account"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/platform"
	"steward/internal/store"
)

// forkRoom is how much of a plan's disk, in percent, what is forked may take: at
// more the disk guard would hold from the beginning.
const forkRoom = 90

// source is the database that a fork is asked of; nil without a fork, and when the
// caller sees no such database.
func (s *Clusters) source(ctx context.Context, p account.Principal, f *cluster.Fork) (*cluster.Cluster, error) {
	if f == nil {
		return nil, nil
	}
	c, err := s.forkable(ctx, p, f.Source)
	if fault.IsKind(err, fault.NotFound) {
		return nil, nil
	}
	return &c, err
}

// inherit gives a spec what it leaves out and its source has, but for the label.
// unknown are the members of a fork that were left out and that no source tells.
func inherit(spec cluster.Spec, source *cluster.Cluster) (_ cluster.Spec, unknown []string) {
	if spec.Fork == nil {
		return spec, nil
	}
	if source == nil {
		for member, value := range map[string]string{"label": spec.Label, "region": spec.Region, "type": spec.Type, "engine": spec.Series} {
			if value == "" {
				unknown = append(unknown, member)
			}
		}
		spec.Size = cmp.Or(spec.Size, 1)
		return spec, unknown
	}
	if spec.Engine == source.Engine {
		spec.Config = source.Config
	}
	spec.AskedAutoSuspend = cmp.Or(spec.AskedAutoSuspend, &source.AutoSuspend)
	spec.Region, spec.Type, spec.Size = cmp.Or(spec.Region, source.Region), cmp.Or(spec.Type, source.Type), cmp.Or(spec.Size, source.Size)
	if spec.Fork.SameEncryption {
		spec.Encrypted = source.Encrypted
	}
	switch {
	case spec.Engine == source.Engine && (spec.Series == "" || isSeries(spec.Series, source.Series)):
		spec.Series = source.Series
	case spec.Series == "": // sameKind says what it must be
		unknown = append(unknown, "engine")
	}
	return spec, unknown
}

// without is faults but for those of some members.
func without(faults fault.Faults, members []string) fault.Faults {
	return slices.DeleteFunc(faults, func(f *fault.Fault) bool { return slices.Contains(members, f.Field) })
}

// forkLabel is a label for a fork that wasn't given any: the source's with -fork,
// or with -fork-2 and so on, the first that no database of the account has.
func (s *Clusters) forkLabel(ctx context.Context, p account.Principal, source string) (string, error) {
	for n, suffix := 2, "-fork"; ; n++ {
		const longest = 32
		label := source[:min(len(source), longest-len(suffix))] + suffix
		if _, taken, err := s.labeled(ctx, p, label); err != nil || !taken {
			return label, err
		}
		suffix = fmt.Sprintf("-fork-%d", n)
	}
}

// fork is what a request to make a database of another one's backup comes to, with
// the moment that there is where it asks for one; nil when that wasn't asked for.
// found gets what is wrong with it.
func (s *Clusters) fork(ctx context.Context, spec cluster.Spec, source *cluster.Cluster, found *fault.Faults) (*cluster.Fork, error) {
	switch {
	case spec.Fork == nil:
		return nil, nil
	case source == nil:
		found.Add("fork.source", "There is no such database")
		return nil, nil
	}
	all, err := s.Store.BackupsOf(ctx, source.ID)
	if err != nil {
		return nil, fmt.Errorf("list the backups of database %d: %w", source.ID, err)
	}
	*found = append(*found, sameKind(spec, *source, all)...)
	if !s.Catalog.For(source.Region, source.Engine).Backups {
		found.Add("fork.source", "Databases of the region %s can't be forked", source.Region)
		return nil, nil
	}
	if _, there := s.Catalog.Region(spec.Region); there && !s.Catalog.For(spec.Region, spec.Engine).Backups {
		found.Add("region", "Databases of the region %s can't be made of others", spec.Region)
	}
	if spec.Region != source.Region && (s.Catalog.Abilities(source.Region).KeepsBackups || s.Catalog.Abilities(spec.Region).KeepsBackups) {
		found.Add("region", "Must be %s, which is the source's: its backups can't be read elsewhere", source.Region)
	}
	good := backup.ForkFrom(all, nil)
	if len(good) == 0 {
		found.Add("fork.source", "The database has no backup that can be restored; take one first")
		return nil, nil
	}
	f := cluster.Fork{Source: source.ID, RestoreTime: spec.Fork.RestoreTime, Asked: spec.Fork.RestoreTime}
	chosen, err := s.chosen(ctx, *source, all, f)
	if err != nil {
		return nil, err
	}
	if len(chosen) == 0 {
		*found = append(*found, s.outOfReach(*source, good))
		return nil, nil
	}
	if f.RestoreTime != nil && !s.continuous(*source) { // a backup's own moment is all that can be had
		f.RestoreTime = new(chosen[0].Created.Truncate(time.Second))
	}
	*found = append(*found, s.forkFits(spec, chosen[0])...)
	return &f, nil
}

// sameKind: a copy of the files can be read by the same server only, and with
// the same encryption. Backups from before an upgrade are of another series: what is made of one is of that.
func sameKind(spec cluster.Spec, source cluster.Cluster, all []backup.Backup) fault.Faults {
	var found fault.Faults
	older := slices.ContainsFunc(all, func(b backup.Backup) bool { return cluster.SeriesOf(b.Installation) == spec.Series })
	if spec.EngineID() != source.EngineID() && (spec.Engine != source.Engine || !older) {
		found.Add("engine", "Must be %s, which is the source's", source.EngineID())
	}
	if spec.Encrypted != source.Encrypted {
		found.Add("encrypted", "Must be %t, as it is for the source", source.Encrypted)
	}
	return found
}

// chosen are the backups that serve the moment asked for, best first: its own;
// else, where files are archived, those that were complete by then, and elsewhere
// those that began before it.
func (s *Clusters) chosen(ctx context.Context, source cluster.Cluster, all []backup.Backup, f cluster.Fork) ([]backup.Backup, error) {
	exact := backup.ForkFrom(all, f.RestoreTime)
	if len(exact) > 0 || f.RestoreTime.After(s.Now()) {
		return exact, nil
	}
	if !s.continuous(source) {
		return backup.ForkBefore(all, *f.RestoreTime), nil
	}
	restored, err := s.Store.LastRestore(ctx, f.Source, *f.RestoreTime)
	if err != nil {
		return nil, fmt.Errorf("look for restores of database %d: %w", f.Source, err)
	}
	return backup.RecoverFrom(all, *f.RestoreTime, restored), nil
}

func (s *Clusters) outOfReach(source cluster.Cluster, good []backup.Backup) *fault.Fault {
	oldest, now := good[len(good)-1], filter.FormatTime(s.Now())
	if s.continuous(source) {
		// The first whole second by which the oldest backup was complete.
		since := oldest.Finished.Truncate(time.Second).Add(time.Second)
		return fault.NewInvalid("fork.restore_time", "Must be a backup's created, or from %s to now, %s; after a restore, from the next backup on",
			filter.FormatTime(since), now)
	}
	return fault.NewInvalid("fork.restore_time", "Must be from %s, when the oldest backup began, to now, %s; the newest backup before it is taken",
		filter.FormatTime(oldest.Created), now)
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
func sourceThere(ctx context.Context, tx *store.Tx, p account.Principal, f *cluster.Fork, now time.Time) error {
	if f == nil {
		return nil
	}
	_, err := tx.Cluster(ctx, store.ViewerOf(p), "", f.Source)
	if fault.IsKind(err, fault.NotFound) && !p.User.Restricted {
		_, err = tx.FinalSource(ctx, p.Account, f.Source, now)
	}
	if fault.IsKind(err, fault.NotFound) {
		return fault.NewInvalid("fork.source", "There is no such database")
	}
	return err
}
