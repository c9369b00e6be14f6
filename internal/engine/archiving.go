package engine

import (
	"context"
	"errors"
	"io"
	"time"
)

// Recovery says how far a server goes on from a copy, and where it finds what
// was archived since.
type Recovery struct {
	// Until is the point in time to stop at; zero for the end of the archive.
	Until time.Time
	// RestoreDir is a folder of the node's user. A Fetcher's server leaves NAME.want
	// there and waits for NAME, or for NAME.none; a Feeder's reads from it.
	RestoreDir string
}

// The suffixes of the files in a Recovery's RestoreDir.
const (
	RestoreWanted  = ".want"
	RestoreMissing = ".none"
)

// ErrGap is returned when something is missing that a recovery needs, while what
// came after it is there.
var ErrGap = errors.New("what was archived has a gap")

// Recoverer is the part of a Driver that continuous archiving needs; it is a
// Fetcher or a Feeder as well. Drivers without it restore to backups only, not to
// points in time between them.
//
// An archive ID names a history of data, under which its files are archived. It
// outlives failovers; data that was restored or recovered has a new one, since it
// goes another way than what is archived already.
type Recoverer interface {
	// UnpackToRecover is Unpack that leaves the copy what it was, so that its
	// server can go on with what was archived. For Fetchers archiveID names the copy's
	// history, and first is the first archived file that may not be in the copy.
	UnpackToRecover(ctx context.Context, n Node, r io.Reader, dir string, run Piper) (archiveID, first string, err error)
	// Prunable reports whether an archived file can be removed once all backups are
	// newer than it. Others are small, and later backups may need them.
	Prunable(name string) bool
	// StartNewArchive gives the cleanly stopped data at dir, recovered by the server n,
	// an archive ID of its own.
	StartNewArchive(ctx context.Context, n Node, dir string, run Piper) error
}

// Fetcher is a Recoverer whose servers put what they have written into
// Node.ArchiveDir by themselves, and ask for what was archived in a Recovery's
// RestoreDir while they start.
type Fetcher interface {
	Recoverer
	// EndedEarly reports whether a server that ended while recovering had nothing
	// left to read before the point in time asked for, by the end of its log.
	EndedEarly(words string) bool
	// LastChange is the time of the last change that a server replayed which has
	// just recovered; zero when there was none.
	LastChange(ctx context.Context, n Node) (time.Time, error)
	// ArchiveIDOf returns, by name and first bytes, what a file in a node's ArchiveDir
	// is archived under, and whether it is to be archived. data is the node's.
	ArchiveIDOf(ctx context.Context, name string, head []byte, data string) (archiveID string, keep bool, err error)
	// Beyond reports whether of two archived files the first is of later changes, on
	// whatever branch of history.
	Beyond(a, b string) bool
}

// Feeder is a Recoverer whose servers keep what they have written until they are
// asked for it, and are given what was archived when they run.
type Feeder interface {
	Recoverer
	// ArchiveBinlogs uploads, in order, what the running primary n has written since
	// from, but for the last minute at most, and returns up to where that was taken,
	// also beside an error. The server purges what was archived after a while.
	ArchiveBinlogs(ctx context.Context, n Node, from ArchivePosition, to ArchiveSink) (ArchivePosition, error)
	// PurgeBinlogs has a running replica purge what its primary has archived.
	PurgeBinlogs(ctx context.Context, n Node, archived ArchivePosition) error
	// Replay has the server n, started with a Recovery on what UnpackToRecover made,
	// apply all that was archived before the point in time. short reports that the
	// archive ended before it; reached is then the time of the last change, zero when
	// there was none. ErrGap when something before the point in time is missing.
	Replay(ctx context.Context, n Node, from ArchiveSource) (reached time.Time, short bool, err error)
}

// ArchiveSink is where files are archived, platform.ArchiveSink.
type ArchiveSink interface {
	Put(ctx context.Context, archiveID, name string, r io.Reader) error
	ReportGap(ctx context.Context) error
}

// ArchivePosition is up to where a cluster's binary logs are archived.
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

// ArchiveSource is where a Feeder reads what was archived.
type ArchiveSource struct {
	// Names are all files with an archive ID.
	Names func(ctx context.Context, archiveID string) ([]string, error)
	// Fetch writes a file to out; false when there is none such.
	Fetch func(ctx context.Context, archiveID, name string, out io.Writer) (bool, error)
}

// Names in a node's ArchiveDir that are no files of the server's: it had to drop some
// since the folder was full, and that was reported; a file being written.
const (
	ArchiveGap         = ".overflow"
	ArchiveGapReported = ".told"
	ArchiveTemp        = ".new"
)

// ArchiveHead is how many of a file's first bytes ArchiveIDOf is given.
const ArchiveHead = 64
