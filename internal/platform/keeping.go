package platform

import (
	"context"
	"errors"
	"time"

	"steward/internal/backup"
	"steward/internal/cluster"
)

// BackupKeeper is the part of a Driver whose platform may keep backups itself, and what servers write between them, instead of
// steward's archive. For clusters of which it does, these methods take the place of those of Archiver, ContinuousArchiver and
// Verifier, but for Undo. Callers hold the same leases.
type BackupKeeper interface {
	// KeepsBackups reports whether the platform keeps a cluster's backups.
	KeepsBackups(of cluster.Cluster) bool
	// TakeBackup has a backup taken, or waits for the one that was begun under its id, and returns when it can be restored. One that
	// failed is begun anew.
	TakeBackup(ctx context.Context, want Wanted, id backup.ID, from cluster.Role) (Kept, error)
	// RestoreKept makes a backup's data that of the cluster, as Restore does. The old data serves until the restored one can; placing is
	// called before nobody is led to it any more. Repeated after a crash, it goes on with what was begun under the same source's Token.
	RestoreKept(ctx context.Context, want Wanted, from KeptSource, placing func() error) (reached time.Time, err error)
	// ForkKept makes another cluster's backup the data of a new one, as Fork does.
	ForkKept(ctx context.Context, want Wanted, from KeptSource) (reached time.Time, err error)
	// VerifyKept restores a backup into a scratch server of its own, as Verify does, and leaves nothing of it.
	VerifyKept(ctx context.Context, want Wanted, from KeptSource) error
	// DropBackup removes a backup, whatever there is of it; ref is "" of one that was never complete.
	DropBackup(ctx context.Context, of cluster.Cluster, id backup.ID, ref string) error
	// DropBackups removes all that is kept of a cluster.
	DropBackups(ctx context.Context, of cluster.Cluster) error
	// PruneBackups removes what no backup needs: keep are the references of all that are complete.
	PruneBackups(ctx context.Context, of cluster.Cluster, keep []string) error
}

// Kept is a backup that a platform keeps.
type Kept struct {
	// Ref is what the platform finds it by, in its own words.
	Ref string
	// Bytes are those of the data, StoredBytes those that it takes where it is kept.
	Bytes, StoredBytes int64
	// Installation names the build that wrote the data.
	Installation string
}

// KeptSource is a backup that is to be restored.
type KeptSource struct {
	Backup backup.ID
	Ref    string
	// Of is the cluster that it is of, and AdminPassword that of its own account; empty where it is the one that is restored.
	Of            cluster.Cluster
	AdminPassword string
	// Until is the moment to go on to from the backup, nil to take it as it is.
	Until *time.Time
	// Token names the request: what was begun for another isn't gone on with.
	Token string
}

// ErrRestoreFails says that a server doesn't come up on a backup, however often that is tried.
var ErrRestoreFails = errors.New("no server comes up on the backup")

// errNotKept is returned of a platform that keeps no backups. Who asks has been told so by KeepsBackups.
var errNotKept = errors.New("this platform keeps no backups itself")

// KeepsNone is a BackupKeeper that keeps nothing, for platforms whose backups are in steward's archive.
type KeepsNone struct{}

// KeepsBackups implements BackupKeeper.
func (KeepsNone) KeepsBackups(cluster.Cluster) bool { return false }

// TakeBackup implements BackupKeeper.
func (KeepsNone) TakeBackup(context.Context, Wanted, backup.ID, cluster.Role) (Kept, error) {
	return Kept{}, errNotKept
}

// RestoreKept implements BackupKeeper.
func (KeepsNone) RestoreKept(context.Context, Wanted, KeptSource, func() error) (time.Time, error) {
	return time.Time{}, errNotKept
}

// ForkKept implements BackupKeeper.
func (KeepsNone) ForkKept(context.Context, Wanted, KeptSource) (time.Time, error) {
	return time.Time{}, errNotKept
}

// VerifyKept implements BackupKeeper.
func (KeepsNone) VerifyKept(context.Context, Wanted, KeptSource) error { return errNotKept }

// DropBackup implements BackupKeeper.
func (KeepsNone) DropBackup(context.Context, cluster.Cluster, backup.ID, string) error {
	return errNotKept
}

// DropBackups implements BackupKeeper.
func (KeepsNone) DropBackups(context.Context, cluster.Cluster) error { return errNotKept }

// PruneBackups implements BackupKeeper.
func (KeepsNone) PruneBackups(context.Context, cluster.Cluster, []string) error { return errNotKept }
