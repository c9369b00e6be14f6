package engine

import (
	"context"
	"errors"
	"io"
	"time"
)

// Recovery says how far a server goes on from a copy, and where it asks for what
// was archived since.
type Recovery struct {
	// Until is the moment to stop at; zero for the end of what there is.
	Until time.Time
	// Desk is a folder of the node's user. A Fetcher's server leaves NAME.want
	// there and waits for NAME, or for NAME.none; a Feeder's reads from it.
	Desk string
}

// The suffixes of the files on a Recovery's desk.
const (
	DeskWant = ".want"
	DeskNone = ".none"
)

// ErrEndedEarly is what a server ends with that finds no more before the moment
// it is to recover to.
var ErrEndedEarly = errors.New("what was archived ends before the moment asked for")

// ErrGap is returned when something is missing that a recovery needs, while what
// came after it is there.
var ErrGap = errors.New("what was archived has a gap")

// Recoverer is the part of a Driver that continuous archiving needs; it is a
// Fetcher or a Feeder as well. Servers of drivers without it know no moments
// between backups.
type Recoverer interface {
	// UnpackToRecover is Unpack that leaves the copy what it was, so that its
	// server can go on with what was archived. For Fetchers lineage names that
	// history, and first the first archived file that may not be in the copy.
	UnpackToRecover(ctx context.Context, n Node, r io.Reader, dir string, run Piper) (lineage, first string, err error)
	// Sever makes the cleanly stopped data at dir, recovered by the server n, a
	// lineage of its own.
	Sever(ctx context.Context, n Node, dir string, run Piper) error
}

// Fetcher is a Recoverer whose servers hand over by themselves what they have
// written, in Node.Spool, and ask for what was archived at a Recovery's desk
// while they start.
type Fetcher interface {
	Recoverer
	// EndedEarly tells of a server that ended while recovering whether it had
	// nothing left to read before the moment asked for, by its last words.
	EndedEarly(words string) bool
	// LastChange is the moment of the last change that a server replayed which has
	// just recovered; zero when there was none.
	LastChange(ctx context.Context, n Node) (time.Time, error)
	// Spooled tells of a file in a node's spool, by name and first bytes, whether
	// it is to be archived, and of which lineage it is. data is the node's.
	Spooled(ctx context.Context, name string, head []byte, data string) (lineage string, keep bool, err error)
	// Beyond tells whether of two archived files the first is of later changes, on
	// whatever branch of history.
	Beyond(a, b string) bool
}

// Feeder is a Recoverer whose servers keep what they have written until they are
// asked for it, and are given what was archived when they run.
type Feeder interface {
	Recoverer
	// HandOver ships, in order, what the running primary n has written since was, but
	// for the last minute at most, and returns up to where that was taken, also
	// beside an error. What was taken before the server lets go after a while.
	HandOver(ctx context.Context, n Node, was Handed, to Shipment) (Handed, error)
	// LetGo has a running replica let go of what its primary has handed over.
	LetGo(ctx context.Context, n Node, was Handed) error
	// Replay has the server n, started with a Recovery on what UnpackToRecover made,
	// do all that was archived before the moment. short tells that the archive ended
	// before it; reached is then the moment of the last change, zero when there
	// was none. ErrGap when something before the moment is missing.
	Replay(ctx context.Context, n Node, from Archived) (reached time.Time, short bool, err error)
}

// Shipment is where a Feeder hands files over to, platform.Shipment.
type Shipment interface {
	Take(ctx context.Context, lineage, name string, r io.Reader) error
	Overflowed(ctx context.Context) error
}

// Handed is up to where a cluster's primary has handed over.
type Handed struct {
	// Lineage is the history that it is of, Term how often the primary had changed.
	Lineage string `json:"lineage"`
	Term    int    `json:"term"`
	// Position counts the transactions.
	Position uint64 `json:"position"`
	// Told tells that something was lost since all was handed over last, and that
	// the shipment knows.
	Told bool `json:"told,omitempty"`
}

// Archived is how a Feeder gets at what was archived.
type Archived struct {
	// Names are all files of a lineage.
	Names func(ctx context.Context, lineage string) ([]string, error)
	// Fetch writes a file to out; false when there is none such.
	Fetch func(ctx context.Context, lineage, name string, out io.Writer) (bool, error)
}

// Names in a node's spool that are no files of the server's: it had to drop some
// since the spool was full, and that was told of.
const (
	SpoolOverflow = ".overflow"
	SpoolTold     = ".told"
	SpoolNew      = ".new"
)

// SpoolHead is how many of a spooled file's first bytes Spooled is given.
const SpoolHead = 64
