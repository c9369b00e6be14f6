package control

import (
	"time"

	"steward/internal/alert"
	"steward/internal/cluster"
)

// BackupProblem is what is wrong with a database's backups.
type BackupProblem string

// The problems.
const (
	// BackupFailed: the newest backup that has ended failed, or was tried out and doesn't restore.
	BackupFailed BackupProblem = "failed"
	// BackupUnproven: the newest one that can be relied on is too old.
	BackupUnproven BackupProblem = "unproven"
)

// BackupProblem is what is wrong with a database's backups, "" for nothing. One that can be relied on counts and is too old as
// the alert backup-missing has it, and a database that rests needs none.
func (s *Clusters) BackupProblem(c cluster.Cluster) BackupProblem {
	if c.BackupFailed {
		return BackupFailed
	}
	rests := c.Status == cluster.Provisioning || c.Status == cluster.Suspended || c.SleepingSince != nil
	if rests || !s.Backups || !s.Catalog.For(c.Region, c.Engine).Backups {
		return ""
	}
	if reliable(c, s.Verified).Before(s.Now().Add(-alert.ProvenWithin())) {
		return BackupUnproven
	}
	return ""
}

// reliable is when the newest backup began that can be relied on; without any, when the database was made.
func reliable(c cluster.Cluster, verified bool) time.Time {
	newest := c.NewestBackup
	if verified {
		newest = c.ProvenBackup
	}
	if newest == nil {
		return c.Created
	}
	return *newest
}
