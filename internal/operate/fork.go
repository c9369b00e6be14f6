package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/archive"
	"steward/internal/backup"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/operation"
	"steward/internal/platform"
	"steward/internal/store"
)

var (
	errSourceGone = &impossible{reason: "The database it was to be forked from was deleted meanwhile."}
	errForkGone   = &impossible{reason: "The backup it was to be forked from is gone."}
	errForkGap    = &impossible{reason: "What was archived of the source has a gap before the moment asked for; choose a backup's created, or a moment after a newer backup."}
)

// fork makes a new database of another one's backup. Only then is anybody let in.
func (w *work) fork(ctx context.Context) error {
	want, err := w.wanted(false)
	if err != nil {
		return err
	}
	if !w.op.Params.Placed { // what customers wrote since must not be lost again
		of, err := w.placeFork(ctx, want)
		if err != nil {
			return err
		}
		if err := w.Store.RecordForked(ctx, w.c.ID, of); err != nil {
			return fmt.Errorf("record the fork: %w", err)
		}
		if err := w.placed(ctx); err != nil {
			return err
		}
	}
	if want, err = w.ofItsSeries(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, w.Limits.GiveUp)
	defer cancel()
	seen, err := w.settleRestored(limited, want)
	if err != nil {
		return err
	}
	return w.end(ctx, func(tx *store.Tx) error {
		return errors.Join(
			tx.RecordObserved(ctx, w.c.ID, seen),
			w.move(ctx, tx, w.c, cluster.Ready),
			tx.FinishOperation(ctx, w.op.ID, operation.Finished, w.op.Params.Note),
		)
	})
}

// placeFork places the best backup that is whole, recovered to the point in time where
// one between backups is asked for. It returns the one that the data is of.
func (w *work) placeFork(ctx context.Context, want platform.Wanted) (of time.Time, err error) {
	source, err := w.forkSource(ctx)
	if err != nil {
		return of, err
	}
	all, err := w.Store.BackupsOf(ctx, source.ID)
	if err != nil {
		return of, fmt.Errorf("list the backups of database %d: %w", source.ID, err)
	}
	asked := w.c.Fork.RestoreTime
	candidates, recovers := backup.ForkFrom(all, asked), false
	if asked != nil && len(candidates) == 0 {
		restored, err := w.Store.LastRestore(ctx, source.ID, *asked)
		if err != nil {
			return of, fmt.Errorf("look for restores of database %d: %w", source.ID, err)
		}
		candidates, recovers = backup.RecoverFrom(all, *asked, restored), true
	}
	var last error = errForkGone
	for _, b := range candidates {
		if b.Created.After(w.op.Created) {
			continue // it wasn't there when the fork was asked for
		}
		f := forking{work: w, source: source, b: b, recovers: recovers}
		if of, last = f.copy(ctx, want); !unusable(last) {
			return of, last
		}
		w.log.WarnContext(ctx, "a backup to fork from is damaged", "source_id", int64(source.ID), "backup_id", int64(b.ID), "error", last)
	}
	if unusable(last) {
		last = &impossible{reason: "The source's backups are damaged and can't be restored."}
	}
	return of, last
}

// unusable reports whether another backup may do where this one won't.
func unusable(err error) bool {
	return errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrNotFound)
}

func (w *work) forkSource(ctx context.Context) (cluster.Cluster, error) {
	if w.c.Fork == nil {
		return cluster.Cluster{}, errSourceGone
	}
	source, err := w.Store.ClusterForWork(ctx, w.c.Fork.Source)
	if fault.IsKind(err, fault.NotFound) || err == nil && (source.Deleted != nil && (source.FinalUntil == nil || !source.FinalUntil.After(w.Now())) || source.Account != w.c.Account) {
		return source, errSourceGone
	}
	if err != nil {
		return source, fmt.Errorf("read cluster %d: %w", w.c.Fork.Source, err)
	}
	return source, nil
}

// forking is a fork of one backup.
type forking struct {
	*work
	source   cluster.Cluster
	b        backup.Backup
	recovers bool
	// key is what the source's archive is read with.
	key []byte
}

// copy streams the backup into the new cluster and returns the point in time it is of.
func (f *forking) copy(ctx context.Context, want platform.Wanted) (of time.Time, err error) {
	if f.Driver.KeepsBackups(f.source) {
		return f.forkKept(ctx, want)
	}
	p := f.report(ctx, "restored", f.b.Bytes)
	defer p.end()
	m, err := step("verify archive", func() (archive.Manifest, error) { return f.Archive.Verify(ctx, f.source.ID, f.b.ID) })
	if err != nil {
		return of, fmt.Errorf("read the archive: %w", err)
	}
	if f.key, err = f.secret(ctx, platform.BackupKey); err != nil {
		return of, err
	}
	admin, err := f.secret(ctx, platform.AdminPassword)
	if err != nil {
		return of, err
	}
	_, content, err := f.Archive.Get(ctx, f.source.ID, f.b.ID, f.key)
	if err != nil {
		return of, fmt.Errorf("read the archive: %w", err)
	}
	defer content.Close()
	from := platform.Source{Copy: m.Copy, AdminPassword: string(admin)}
	if f.recovers {
		from.Recovery = f.recovery(f.source.ID, *f.c.Fork.RestoreTime, f.key)
	}
	reached, err := step("fork", func() (time.Time, error) {
		return f.Driver.Fork(ctx, want, from, content, func(bytes int64) { p.bytes.Store(bytes) })
	})
	if errors.Is(err, platform.ErrGap) {
		f.log.WarnContext(ctx, "the archive has a gap", "source_id", int64(f.source.ID), "error", err)
		return of, errForkGap
	}
	if err != nil {
		return of, fmt.Errorf("fork: %w", err)
	}
	return f.dataOf(reached), nil
}

func (f *forking) secret(ctx context.Context, name platform.SecretName) ([]byte, error) {
	value, err := f.Store.Secret(ctx, f.source.ID, name)
	if err != nil {
		return nil, fmt.Errorf("secret %s of database %d: %w", name, f.source.ID, err)
	}
	return value, nil
}

// recovery reads what was archived of a database up to a point in time.
func (w *work) recovery(of cluster.ID, until time.Time, key []byte) *platform.Recovery {
	return &platform.Recovery{
		Until: until,
		Fetch: func(ctx context.Context, archiveID, name string, out io.Writer) (bool, error) {
			err := w.Archive.GetSegment(ctx, archive.Segment{Cluster: of, ArchiveID: archiveID, Name: name}, key, out)
			if errors.Is(err, archive.ErrNotFound) {
				return false, nil
			}
			return err == nil, err
		},
		Archived: func(ctx context.Context, archiveID string) ([]string, error) {
			all, err := w.Archive.ListSegments(ctx, of)
			var names []string
			for _, s := range all {
				if s.ArchiveID == archiveID {
					names = append(names, s.Name)
				}
			}
			return names, err
		},
	}
}

// dataOf is the point in time that the data is of, and a note for people where that is earlier
// than what was asked for. A log that goes on beyond the one asked for proves
// that nothing is missing up to it; what it has from then on isn't in the data.
func (f *forking) dataOf(reached time.Time) time.Time {
	f.op.Params.Note = ""
	if !f.recovers {
		return f.b.Created
	}
	if reached.IsZero() {
		reached = f.b.Created
	}
	f.op.Params.Note = earlier("the source", reached, *f.c.Fork.RestoreTime)
	if f.op.Params.Note != "" {
		return reached
	}
	return *f.c.Fork.RestoreTime
}

// earlier tells people that a recovery reached an earlier point in time than the one asked for; "" when it didn't.
func earlier(of string, reached, asked time.Time) string {
	if !reached.Before(asked) {
		return ""
	}
	return fmt.Sprintf("Nothing was archived of %s between %s and %s, the moment asked for: the data is of the former.",
		of, filter.FormatTime(reached), filter.FormatTime(asked))
}
