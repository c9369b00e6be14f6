package engine

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"steward/internal/migration"
)

// Source is a server elsewhere whose databases are brought over. It may be anybody's: it may lie, hang, or never end.
type Source struct {
	// Dial opens a connection to it, whose address was judged.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS is how a connection is encrypted; nil for not at all.
	TLS                *tls.Config
	Username, Password string
	// Received is what it has sent, Most what it may send altogether.
	Received *Received
	Most     int64
	// Silence is how long it may send nothing that it was asked for; 0 where whoever reads sees to that.
	Silence time.Duration
	// Large is whose turn it is to hold a large row, of all streams of one migration. It may be nil.
	Large Turn
	// Heard is told whenever something has come from it, by any goroutine. It may be nil.
	Heard func()
}

// Excused has it be told that it was heard of, until the function that is returned is called: it isn't the source that is waited for.
func (s Source) Excused() (end func()) {
	if s.Heard == nil {
		return func() {}
	}
	tick, done := time.NewTicker(time.Second), make(chan struct{})
	go func() {
		for {
			select {
			case <-tick.C:
				s.Heard()
			case <-done:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
	}
}

// Turn is had by one of several at a time.
type Turn chan struct{}

// NewTurn is one that nobody has.
func NewTurn() Turn { return make(Turn, 1) }

// Take waits a while for it, and reports whether it is the caller's now.
func (t Turn) Take(patience time.Duration) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case t <- struct{}{}:
		return true
	case <-late.C:
		return false
	}
}

// Give lets another have it. Who calls it has it.
func (t Turn) Give() { <-t }

// SourceError is a failure of an import that trying again won't put right. Its reason is for customers.
type SourceError struct {
	Reason string
	// Passing reports whether it may be gone after a while, for who has that long: a source that is started again.
	Passing bool
}

func (e *SourceError) Error() string { return e.Reason }

// ErrSourceChanges is returned by Import when tables were altered, emptied or made anew while they were copied. A copy of another moment may be whole.
var ErrSourceChanges = errors.New("tables of the source changed while they were copied")

// ErrSilent is a source that sends nothing for too long, ErrEndless one that sends more than it may.
var (
	ErrSilent  = errors.New("the source has sent nothing for too long")
	ErrEndless = errors.New("the source sends more than the database has room for")
)

// Received is what was received of a source by all of its connections.
type Received struct {
	bytes   atomic.Int64
	endless atomic.Bool
	silent  atomic.Bool
}

// GivenUp is why a connection was given up, nil while none was: drivers of servers don't always pass that on.
func (i *Received) GivenUp() error {
	switch {
	case i.endless.Load():
		return ErrEndless
	case i.silent.Load():
		return ErrSilent
	}
	return nil
}

// Connect opens a connection that ends with what the source may do.
func (s Source) Connect(ctx context.Context) (net.Conn, error) {
	conn, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &sourceConn{Conn: conn, of: s}, nil
}

type sourceConn struct {
	net.Conn
	of Source
	// bounded reports whether its user has set a deadline, which then counts.
	bounded atomic.Bool
}

// SetDeadline implements net.Conn.
func (c *sourceConn) SetDeadline(t time.Time) error {
	c.bounded.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *sourceConn) SetReadDeadline(t time.Time) error {
	c.bounded.Store(!t.IsZero())
	return c.Conn.SetReadDeadline(t)
}

// Read implements io.Reader.
func (c *sourceConn) Read(p []byte) (int, error) {
	if c.of.Received.bytes.Load() > c.of.Most {
		c.of.Received.endless.Store(true)
		return 0, ErrEndless
	}
	if c.of.Silence > 0 && !c.bounded.Load() {
		if err := c.Conn.SetReadDeadline(time.Now().Add(c.of.Silence)); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	c.of.Received.bytes.Add(int64(n))
	if n > 0 && c.of.Heard != nil {
		c.of.Heard()
	}
	if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() && !c.bounded.Load() {
		c.of.Received.silent.Store(true)
		return n, ErrSilent
	}
	return n, err
}

// Tool is a program of a server's that is run to its end where it sees and reaches nothing but what is named here.
type Tool struct {
	// Argv may name the sandbox's folder.
	Argv, Env []string
	// Files are written into the folder first, by their names.
	Files map[string][]byte
	// Socket is the name, in the folder, of a unix socket; who connects there is joined to what Connect opens. "" for none.
	Socket  string
	Connect func(ctx context.Context) (net.Conn, error)
	Stdin   io.Reader
	Stdout  io.Writer
}

// ToolSandbox runs tools as a user without rights, in a sandbox without a network.
type ToolSandbox interface {
	// Dir is the folder that they work in, as they see it.
	Dir() string
	// Run runs one, and returns the end of what it said on standard error.
	Run(ctx context.Context, t Tool) (said []byte, err error)
}

// Importer is the part of a Driver that brings databases over from servers elsewhere, and has them keep up with those afterwards. It writes as dbadmin,
// with n.RootPassword, who can do no more than its customers: whatever a source sends is theirs.
type Importer interface {
	// Examine asks a source whether databases can be brought to n's. Only what keeps it from being asked is an error.
	Examine(ctx context.Context, n Node, s Source, mode migration.Mode, databases []migration.Database) (migration.Report, error)
	// Empty reports whether there is nothing in a database of n's.
	Empty(ctx context.Context, n Node, database string) (bool, error)
	// Import fills an empty database of n's with one of a source's. report hears of phases and tables as they change, from one
	// goroutine at a time. One with a Slot is left so that KeepUp can go on from the moment that it was copied as of.
	Import(ctx context.Context, n Node, s Source, d migration.Database, tools ToolSandbox, report func(ImportProgress)) error
	// KeepUp reads what the source logs and writes what it has written since the copy, from where it was when it last ended, whatever
	// ended it. Once asked is closed, it goes on until all is here that the source had by then, makes the database one that can be
	// written to, and returns nil; also when it had done so before. What isn't a SourceError is worth another try.
	KeepUp(ctx context.Context, n Node, s Source, d migration.Database, asked <-chan struct{}, report func(ImportProgress)) error
	// Complete does what can wait until a database is written to here, and removes what following it has left in it. It may be repeated.
	Complete(ctx context.Context, n Node, d migration.Database, report func(ImportProgress)) error
	// Release removes from a source what following it takes there.
	Release(ctx context.Context, s Source, d migration.Database) error
	// Leftovers are the statements by which a source's owner does the same.
	Leftovers(d migration.Database) string
}

// ImportProgress is what an import reports: another phase, how far a table is, or how far behind its source a database is.
type ImportProgress struct {
	Phase migration.Phase
	Table *migration.Table
	Lag   *migration.Lag
}
