package engine

import (
	"context"
	"io"
	"time"
)

// Piper runs a program to its end as the user that owns dir, with streams. It
// returns the end of what the program said on standard error.
type Piper func(ctx context.Context, dir string, p Process, stdin io.Reader, stdout io.Writer) (said []byte, err error)

// Archiver is the part of a Driver that backups need. What is written is a
// physical copy, uncompressed and in the clear: compressing and sealing it is
// the caller's.
type Archiver interface {
	// Backup writes a copy of the running server n's data, a replica's or a
	// primary's, consistent as of the moment Backup returns, with all that is
	// needed to start on it. Writers go on. Nothing is written to disk where the
	// flavour can avoid it; what has to be is below n.Tmp and removed.
	Backup(ctx context.Context, n Node, w io.Writer, run Piper) error
	// Unpack makes of what Backup wrote a data folder at dir, on which n's
	// server can be started as a primary. dir exists, is empty, and belongs to the
	// node's user. A stream that ends early or was changed is an error.
	Unpack(ctx context.Context, n Node, r io.Reader, dir string, run Piper) error
	// Check looks through all of a running server's data for damage, in the
	// engine's own way; the error says what is damaged. Customers have a say in how
	// long a table takes, or an index: within is the time for one of so many bytes.
	// What takes longer is ended, and the rest goes on; unless damage was found,
	// the error is ErrUnchecked then.
	Check(ctx context.Context, n Node, within func(bytes int64) time.Duration) error
}

// MostUnchecked is after how many tables and indexes that take too long a Check
// ends: each of them has used up its whole time.
const MostUnchecked = 3
