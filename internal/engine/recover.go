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
	// Desk is a folder of the node's user: the server leaves NAME.want there and
	// waits for NAME, or for NAME.none.
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

// Recoverer is the part of a Driver that continuous archiving needs. Servers of
// drivers without it know no moments between backups.
type Recoverer interface {
	// UnpackToRecover is Unpack that leaves the copy what it was, so that its
	// server can go on with what was archived. lineage names that history; first is
	// the first archived file that may not be in the copy.
	UnpackToRecover(ctx context.Context, n Node, r io.Reader, dir string) (lineage, first string, err error)
	// EndedEarly tells of a server that ended while recovering whether it had
	// nothing left to read before the moment asked for, by its last words.
	EndedEarly(words string) bool
	// LastChange is the moment of the last change that a server replayed which has
	// just recovered; zero when there was none.
	LastChange(ctx context.Context, n Node) (time.Time, error)
	// Sever makes the cleanly stopped data at dir, recovered, a lineage of its own.
	Sever(ctx context.Context, dir string) error
	// Spooled tells of a file in a node's spool, by name and first bytes, whether
	// it is to be archived, and of which lineage it is. data is the node's.
	Spooled(ctx context.Context, name string, head []byte, data string) (lineage string, keep bool, err error)
	// Beyond tells whether of two archived files the first is of later changes, on
	// whatever branch of history.
	Beyond(a, b string) bool
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
