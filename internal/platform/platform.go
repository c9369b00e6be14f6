// Package platform is the seam to where clusters run. A whole cluster is its
// unit, so that this host's processes and an operator of Kubernetes fit behind
// the same interface. Every driver passes platformtest.
package platform

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"steward/internal/catalog"
	"steward/internal/cluster"
)

// Observed is what a driver sees of a cluster.
type Observed struct {
	// Exists is false when nothing of the cluster is there.
	Exists bool
	// Serving reports whether the primary takes writes through the gateway.
	Serving bool
	// Closed reports whether the gateway lets nobody in, from whatever address.
	Closed bool
	// Settled reports whether nothing differs from what was wanted: no further Apply is needed.
	Settled bool
	// Suspended reports whether nothing runs, on purpose; then it is settled when
	// that was wanted.
	Suspended bool
	// SleepingSince is since when no server runs because nobody needs one; zero while they
	// do. Who connects wakes the cluster: it counts as serving. WokenFor is what it was last woken for.
	SleepingSince time.Time
	WokenFor      string
	// Healthy counts the nodes that serve: the primary, and replicas that stream.
	Healthy int
	// Degraded reports whether writes go on, but fewer nodes serve than should.
	Degraded bool
	// Failovers counts the changes of the primary in the cluster's life.
	Failovers    int
	LastFailover time.Time
	// FailoverReason is one sentence for people about the last of them: what
	// happened to the old primary, which node took over, and whether
	// acknowledged writes may be lost.
	FailoverReason string
	// LastChange says between which nodes it was; zero when that isn't known.
	LastChange cluster.PrimaryChange
	Nodes      []Node
	Hosts      cluster.Hosts
	Members    map[string]string
	// Installation and ServerVersion are those of the primary.
	Installation  string
	ServerVersion string
	// UsedBytes is the primary's use of its disk; nil when not measured.
	UsedBytes *int64
	// ReadOnly reports whether the disk guard holds.
	ReadOnly bool
	// Problem is what stands in the way, for operators; "" when nothing does.
	Problem string
	// CustomerProblem is what of the customer's keeps a node from coming back, for
	// customers; "" when nothing does.
	CustomerProblem string
	// Permanent reports whether repeating Apply won't help with Problem.
	Permanent bool
}

// Node is one server process of a cluster.
type Node struct {
	Ordinal int
	Role    cluster.Role
	// Pid is the server's process id on this host, 0 when it isn't running.
	Pid     int
	Address string
	Running bool
	// Restarts grows with each restart after a crash; it begins at 0 with steward, or with what the server runs in.
	Restarts int
	Started  time.Time
	Version  string
	// Streaming reports whether a replica receives what the primary writes.
	Streaming bool
	// Lag is how far a replica is behind the primary.
	Lag time.Duration
	// LagBytes is how many bytes of the primary's changes a replica hasn't applied yet; nil when
	// that isn't known, or the engine counts no bytes.
	LagBytes *int64
	// Position is how far the node is in the stream of changes, in its engine's words.
	Position string
	// Problem is what keeps the node from serving, for operators; "" when nothing does.
	Problem string
}

// Driver runs clusters. All methods are repeatable: called again after a crash
// at any point they finish the work.
type Driver interface {
	Applier
	Archiver
	ContinuousArchiver
	Verifier
	BackupKeeper
	Upgrader
	Reconciler
	Measurer
	Inspector
	Shaper
	Importer
	// Changes tells of clusters that should be looked at again: a server
	// exited, a ping was missed. It is a hint; a sweep looks anyway.
	Changes() <-chan cluster.ID
	// Engines are the release series this platform can run, found at start.
	Engines() []catalog.Engine
}

// Applier is the part of a Driver that makes clusters what is wanted. A caller holds
// the cluster's lease around Apply, Remove and SetPassword.
type Applier interface {
	// Apply takes one bounded pass towards what is wanted and reports what it
	// then sees. When Observed.Settled is false and there is no error, call
	// again soon. Errors are problems that a later pass may not have.
	Apply(ctx context.Context, want Wanted) (Observed, error)
	// Observe looks without changing anything.
	Observe(ctx context.Context, id cluster.ID) (Observed, error)
	// Pending is what Apply would do beyond the rest if want.Patch were set: moves
	// to newer builds, certificates near their end, settings that wait for a
	// restart. It asks no server anything. None of a cluster that isn't there.
	Pending(ctx context.Context, want Wanted) ([]cluster.Task, error)
	// Remove takes away processes, files, routes, limits: everything. Nil when
	// nothing is left, also when nothing was there.
	Remove(ctx context.Context, want cluster.Cluster) error
	// SetPassword makes the cluster's root_password (already changed in
	// Secrets) the one that dbadmin logs in with.
	SetPassword(ctx context.Context, want Wanted) error
	// SetReadOnly turns the disk guard on or off.
	SetReadOnly(ctx context.Context, want Wanted, on bool) error
}

// Copy tells of a backup's data what is needed to restore it.
type Copy struct {
	// Installation names the build that wrote the data, ServerVersion its version.
	Installation  string
	ServerVersion string
	// KeyringBytes is how much of the stream's beginning is the keyring that
	// encrypted data was written with; 0 when there is none.
	KeyringBytes int
}

// Source is what a fork's data comes from.
type Source struct {
	Copy
	// AdminPassword is that of the cluster that was copied; empty where it is the same one.
	AdminPassword string
	// Recovery goes on from the copy to a later moment; nil to take it as it is.
	Recovery *Recovery
	// Token names the request for a Restore: what one of another name put in place is the customer's.
	Token string
}

// Recovery is how far to go on from a copy, with what was archived since.
type Recovery struct {
	Until time.Time
	// Fetch writes an archived file to out; false when there is none such.
	Fetch func(ctx context.Context, archiveID, name string, out io.Writer) (bool, error)
	// Archived names all archived files with an archive ID.
	Archived func(ctx context.Context, archiveID string) ([]string, error)
}

// ErrBlocked is returned when the database's own users hold a lock that a backup needs.
var ErrBlocked = errors.New("the backup waited for a lock")

// ErrCopying says that a replica is being given a copy of the data: there is nothing
// wrong, and Apply goes on when it has it.
var ErrCopying = errors.New("it is being given a copy of the data")

// ErrNothingAside is returned by Undo when no data was set aside, or it was thrown away since.
var ErrNothingAside = errors.New("no data was set aside, or it is more than a day old")

// ErrGap is returned when files that a recovery needs are missing while later
// ones are there.
var ErrGap = errors.New("what was archived has a gap")

// ErrAway is returned while the place where a cluster runs can't be reached. It says nothing of the cluster,
// whose servers may go on serving.
var ErrAway = errors.New("where the database runs can't be reached")

// ErrUnverified is returned by Verify when nothing was found to be wrong with a
// copy, but not all of it could be looked through.
var ErrUnverified = errors.New("the copy couldn't be verified")

// ContinuousArchiver is the part of a Driver that archives what servers write between
// backups.
type ContinuousArchiver interface {
	// Upload puts everything that servers have written into the archive, and removes it.
	Upload(ctx context.Context, want Wanted, to ArchiveSink) error
	// Prunable reports whether an archived file of the engine's can be removed once all
	// backups are newer than it.
	Prunable(of cluster.Engine, name string) bool
}

// ArchiveSink is the continuous archive, to write to.
type ArchiveSink interface {
	// Put keeps a file; it may be given the same one more than once.
	Put(ctx context.Context, archiveID, name string, r io.Reader) error
	// ReportGap is called once when a server had to drop files because too many
	// were waiting.
	ReportGap(ctx context.Context) error
}

// Archiver is the part of a Driver that takes backups and restores them. A
// caller holds the cluster's lease around Restore, Fork and Undo; a backup may be
// taken while other work goes on.
type Archiver interface {
	// Backup writes a physical copy of the cluster's data, uncompressed and in the
	// clear, of a replica's when asked and there is one that follows closely.
	Backup(ctx context.Context, want Wanted, from cluster.Role, w io.Writer) (Copy, error)
	// Restore makes the data in r that of all nodes. The old data is set aside
	// until the restored one serves; r is read to its end, and is whole, before
	// the old data is touched. progress is told the bytes read so far. Repeated
	// after a crash, also one after its end, it begins anew, and what was set aside
	// stays. Servers come up with the accounts and passwords of the time of the backup. With a Recovery reached is the moment that
	// the data is of, as Fork says it; its source is the cluster itself.
	Restore(ctx context.Context, want Wanted, from Source, r io.Reader, progress func(bytes int64)) (reached time.Time, err error)
	// Fork makes the data in r, another cluster's, that of a new one, which gets
	// its own passwords before Fork returns; nobody is let in before Apply.
	// Repeated after a crash, it begins anew, whatever was placed before. With a
	// Recovery reached is the moment that the data is of: the one asked for, or
	// that of the last change that was archived before it, zero without any.
	Fork(ctx context.Context, want Wanted, from Source, r io.Reader, progress func(bytes int64)) (reached time.Time, err error)
	// Undo brings the data back that the last Restore set aside; ErrNothingAside when
	// there is none. Repeated after a crash, it leaves alone what was brought back.
	Undo(ctx context.Context, want Wanted) error
}

// NoUpgradeError is returned when data can't be moved to another series: it, or what of the customer's is in it, stands in the way, and
// trying again won't help. The data is as it was. Its sentences are for customers.
type NoUpgradeError struct {
	Reasons []string
	// Cause is for operators; nil where the sentences say it all.
	Cause error
}

func (e *NoUpgradeError) Error() string {
	text := strings.Join(e.Reasons, " ")
	if e.Cause != nil {
		text += " " + e.Cause.Error()
	}
	return text
}

func (e *NoUpgradeError) Unwrap() error { return e.Cause }

// Trial is what was found when an upgrade was tried out.
type Trial struct {
	// Reasons are why it can't be done, a sentence each, for customers; none when it can.
	Reasons []string
	// Pause is about how long nobody can write while it is done.
	Pause time.Duration
}

// Upgrader is the part of a Driver that moves clusters to another release series. A caller holds the cluster's lease around Upgrade.
type Upgrader interface {
	// Upgrade moves the data to want.Series, which isn't the one that it is of, or is by now. While the servers run it makes a copy; then it
	// stops them, calls pausing, and moves the copy. The old data is set aside as by Restore, for Undo. Nobody is let in before Apply. Repeated
	// after a crash, it begins anew. A NoUpgradeError says that it can't be done.
	Upgrade(ctx context.Context, want Wanted, pausing func() error) error
	// Abandon ends an upgrade for good: if it began to replace the data, that is brought back. Nobody is let in before Apply.
	Abandon(ctx context.Context, want Wanted) error
	// FinishUpgrade does what can follow an upgrade while customers use the servers: statistics, extensions, indexes that sort otherwise. The note, for
	// the customer, is about what is left to do; "" for nothing.
	FinishUpgrade(ctx context.Context, want Wanted) (note string, err error)
	// TryUpgrade moves a copy in r to want.Series in a scratch server of its own, and takes the time. The error is one of the trial, not of
	// the upgrade. Remove ends it.
	TryUpgrade(ctx context.Context, want Wanted, c Copy, r io.Reader) (Trial, error)
}

// Verifier is the part of a Driver that tries backups out.
type Verifier interface {
	// Verify restores r into a scratch server of its own, with little priority,
	// and looks through all of it; the error says what is wrong with the copy, or is
	// ErrUnverified. Remove ends it.
	Verify(ctx context.Context, want Wanted, c Copy, r io.Reader) error
}

// SecretName names one of a cluster's secrets.
type SecretName string

// The secrets of a cluster. All but BackupKey and Keyring are made in the
// transaction that creates it. BackupKey is made with the first backup. Keyring
// is what MySQL's keyring component wrote; it is saved as soon as it is seen,
// before the cluster is reported as settled.
const (
	RootPassword  SecretName = "root_password"
	AdminPassword SecretName = "admin_password"
	CACert        SecretName = "ca_cert"
	CAKey         SecretName = "ca_key"
	BackupKey     SecretName = "backup_key"
	AtRestKey     SecretName = "at_rest_key"
	Keyring       SecretName = "keyring"
)

// Secrets gives drivers the secrets of clusters, unsealed.
type Secrets interface {
	// Secret is fault.NotFound when there is none of the name.
	Secret(ctx context.Context, id cluster.ID, name SecretName) ([]byte, error)
	SaveSecret(ctx context.Context, id cluster.ID, name SecretName, value []byte) error
}
