package engine

import (
	"context"
	"errors"
	"io"
	"time"

	"steward/internal/wait"
)

// ContinuousArchiver is the part of a Driver that archives what servers write between
// backups, and recovers copies with it to points in time.
//
// An archive ID names a history of data, under which its files are archived. It
// outlives failovers; data that was restored or recovered has a new one, since it
// goes another way than what is archived already.
type ContinuousArchiver interface {
	// Upload archives what the nodes of a cluster have written since from, but for the
	// last minute at most, and removes from them what isn't needed any more. It returns
	// up to where that was archived, also beside an error.
	Upload(ctx context.Context, nodes []ArchivedNode, from ArchivePosition, to ArchiveSink) (ArchivePosition, error)
	// Prunable reports whether an archived file can be removed once all backups are
	// newer than it. Others are small, and later backups may need them.
	Prunable(name string) bool

	// UnpackToRecover is Unpack that leaves the copy what it was, so that its
	// server can go on with what was archived.
	UnpackToRecover(ctx context.Context, n Node, r io.Reader, dir string, run Piper) error
	// Recover has a server apply to what UnpackToRecover made at n.Data all that was
	// archived up to n.Recovery.Until, and leaves it running. start writes a node's Files,
	// starts its server and returns when that answers; the error is an *ExitError when it
	// ended. reached is the point in time, or when the archive ends before it the time of
	// the last change, zero when there was none. ErrGap when something before the point
	// in time is missing.
	Recover(ctx context.Context, n Node, from ArchiveSource, start func(context.Context, Node) error) (reached time.Time, err error)
	// StartNewArchive gives the cleanly stopped data at dir, recovered by the server n,
	// an archive ID of its own.
	StartNewArchive(ctx context.Context, n Node, dir string, run Piper) error
}

// ArchivedNode is a node whose changes are archived. Its ArchiveDir is set, secrets
// aren't.
type ArchivedNode struct {
	Node
	// Running returns the node with what it takes to query its server; false when the
	// server doesn't run, or isn't to be archived now.
	Running func(context.Context) (Node, bool, error)
}

// Recovery says how far a server goes on from a copy.
type Recovery struct {
	// Until is the point in time to stop at; zero for the end of the archive.
	Until time.Time
	// RestoreDir is a folder of the node's user for archived files.
	RestoreDir string
}

// ErrGap is returned when something is missing that a recovery needs, while what
// came after it is there.
var ErrGap = errors.New("what was archived has a gap")

// ExitError is returned for a server that ended while it started.
type ExitError struct {
	// LastWords are the last lines of its output.
	LastWords string
}

// Error implements error.
func (e *ExitError) Error() string { return "the server ended: " + e.LastWords }

// ArchiveSink is where files are archived, platform.ArchiveSink.
type ArchiveSink interface {
	Put(ctx context.Context, archiveID, name string, r io.Reader) error
	ReportGap(ctx context.Context) error
}

// ArchivePosition is up to where a cluster is archived, for engines that keep count; the
// zero value for others, and before the first Upload.
type ArchivePosition struct {
	// ArchiveID names the history, Term is how often the primary had changed.
	ArchiveID string `json:"lineage"`
	Term      int    `json:"term"`
	// Position counts the transactions.
	Position uint64 `json:"position"`
	// GapReported reports that something was lost since everything was archived last,
	// and that the sink knows.
	GapReported bool `json:"told,omitempty"`
}

// ArchiveSource is where a recovery reads what was archived.
type ArchiveSource struct {
	// Names are all files with an archive ID.
	Names func(ctx context.Context, archiveID string) ([]string, error)
	// Fetch writes a file to out; false when there is none such.
	Fetch func(ctx context.Context, archiveID, name string, out io.Writer) (bool, error)
}

// FetchPatiently calls fetch until it succeeds, five times at most: an archive may not
// answer for a moment. A gap is for good.
func FetchPatiently(ctx context.Context, fetch func() error) error {
	const tries = 5
	for try := 1; ; try++ {
		err := fetch()
		if err == nil || try == tries || errors.Is(err, ErrGap) {
			return err
		}
		if wait.Sleep(ctx, time.Duration(try)*200*time.Millisecond) != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}
