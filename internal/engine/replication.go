package engine

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Peer is another node of the cluster as a replica reaches it. All nodes of a
// cluster run as one user on one machine.
type Peer struct {
	Ordinal int
	Listen  netip.AddrPort
	// Run is the peer's folder with its unix socket.
	Run string
}

// ErrDiverged is returned by Follow when the replica has what its source
// hasn't, or lacks what the source no longer has: it needs a new copy.
var ErrDiverged = errors.New("the replica's data has gone another way than its source's")

// ErrUndrainable is returned by Drain when what the dead server wrote last can't
// be had from its files, now or later.
var ErrUndrainable = errors.New("the files of the stopped server can't be drained")

// ReplicationStatus is what a running node reports of its replication.
type ReplicationStatus struct {
	// Writable reports that the node is no replica: it takes writes, but for the
	// disk guard.
	Writable bool
	// Streaming reports that a replica receives from n.Source now.
	Streaming bool
	// Received counts what the node has of the cluster's changes: bytes of WAL, or
	// transactions. Applied is how far of that can be read. Of nodes with one
	// history the one with more Received has all that the other has. Both are
	// equal on a primary.
	Received, Applied uint64
	// Lag is for how long the oldest change that was received but not yet
	// applied has waited; 0 when there is none.
	Lag time.Duration
	// Position is for people: an LSN or a GTID set.
	Position string
	// Problem is what a replica's threads stopped at, "" when they didn't.
	Problem string
}

// Replicator is the part of a Driver that clusters of several nodes need. All
// methods are repeatable.
type Replicator interface {
	// PrepareReplica makes the fresh clone at dir, with an identity of its own and never started, one
	// that can follow the server whose data, from a clone of the same template, is
	// at primary: it may run already, as long as it has all changes since the clone.
	PrepareReplica(ctx context.Context, primary, dir string) error
	// BaseBackup copies the data of the running server n to dir, for a replica to be
	// started on. dir exists, is empty, below n.Tmp, and belongs to the node's
	// user. Writers go on meanwhile. Bringing it to disk is the caller's.
	BaseBackup(ctx context.Context, n Node, dir string, run Runner) error
	// ReplicationStatus queries a running node.
	ReplicationStatus(ctx context.Context, n Node) (ReplicationStatus, error)
	// Follow makes a running replica receive from n.Source, and apply; Files with
	// the same Role and Source have been written before. It doesn't wait until it
	// streams. The error is ErrDiverged when it can't ever. Afresh reports whether
	// what the replica had received and not applied may be gone, also with an error.
	Follow(ctx context.Context, n Node) (afresh bool, err error)
	// Disconnect returns when the replica receives nothing any more; what it
	// has received it goes on applying. Its source is stopped, or has been told
	// to StepDown. Nodes are only compared, and drained to, after that.
	Disconnect(ctx context.Context, n Node) error
	// StepDown has a running primary end what writes and refuse new writes, for
	// everybody but us. Nothing when the flavour needs none, since it CanDrain.
	StepDown(ctx context.Context, n Node) error
	// Promote makes a running, disconnected replica the primary: it applies
	// what it has, then takes writes. Files with n.Role Primary have been written
	// before. Nothing when it is one already, but for what was left undone.
	Promote(ctx context.Context, n Node) error
	// KeepsReceived reports whether a replica's server that ends and starts again still
	// has what it had received and not applied yet.
	KeepsReceived() bool
	// CanDrain reports whether Drain does something for the installation.
	CanDrain(inst Installation) bool
	// Drain hands what the stopped server dead has written last, of which no
	// replica may know yet, to candidate: running and disconnected. Promote then applies it.
	Drain(ctx context.Context, dead, candidate Node) error
	// Compare compares the rows of the running replica n with those of n.Source, both
	// as of the same moment, until the context ends. The error is ErrDiverged when they
	// differ; whole reports whether nothing was left out. Writers wait for a second at most.
	Compare(ctx context.Context, n Node) (whole bool, err error)
}
