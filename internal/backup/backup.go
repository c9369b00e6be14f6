// Package backup holds what a backup of a database is, and the rules of when
// one is taken, kept and dropped. No I/O, no goroutines, no clock.
package backup

import (
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
)

// ID identifies a backup.
type ID int64

// Type is how a backup came about.
type Type string

// Snapshots are asked for, automatic backups are taken daily.
const (
	Snapshot Type = "snapshot"
	Auto     Type = "auto"
)

// Target is the node that a backup is taken from.
type Target string

// A database of one node has its primary only.
const (
	FromPrimary   Target = "primary"
	FromSecondary Target = "secondary"
)

// State is how far a backup is. Only complete ones can be restored.
type State string

// A backup is listed from its start on, and while it is being deleted not any more.
const (
	Running  State = "running"
	Complete State = "complete"
	Failed   State = "failed"
	Deleting State = "deleting"
)

// Verification is what is known of whether a backup restores.
type Verification string

// A backup waits to be verified; then it was proven to restore or not to, or that
// took too long, which says nothing of it, and is tried again.
const (
	Pending  Verification = "pending"
	Passed   Verification = "passed"
	Broken   Verification = "failed"
	TimedOut Verification = "timed_out"
)

// Verification is that of a complete backup, "" of any other.
func (b Backup) Verification() Verification {
	switch {
	case b.State != Complete:
		return ""
	case b.Problem != "":
		return Broken
	case b.Verified != nil:
		return Passed
	case b.VerifyTries > 0:
		return TimedOut
	}
	return Pending
}

// Backup is one copy of a database in the archive, as kept in the store.
type Backup struct {
	ID      ID
	Account account.ID
	Cluster cluster.ID
	Type    Type
	Label   string
	Target  Target
	State   State
	// Created is when it began, Finished when it was complete or given up.
	Created  time.Time
	Finished *time.Time
	// Bytes are those of the data, StoredBytes those in the archive.
	Bytes, StoredBytes int64
	// Installation names the build that the data was written by.
	Installation string
	// Ref is what the platform finds it by where that keeps backups itself; "" of those in the archive.
	Ref string
	// Verified is when it was last proven to restore; Problem what then failed, or
	// why the backup did.
	Verified *time.Time
	Problem  string
	// VerifyTries is how often its verification took too long since it was last
	// proven, VerifyAfter when the next may begin.
	VerifyTries int
	VerifyAfter *time.Time
}
