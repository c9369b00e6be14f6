package migration

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
)

// lineBuffer is the longest beginning of a line that is looked at; what follows of it is passed on as it is.
const lineBuffer = 64 << 10

// lines passes text on and lets edit see the beginning of each line, its end included when it fits.
type lines struct {
	from *bufio.Reader
	edit func(line []byte) []byte
	// within reports whether the last piece ended within a line.
	within bool
	left   []byte
	err    error
}

func newLines(r io.Reader, first []byte, edit func(line []byte) []byte) *lines {
	return &lines{from: bufio.NewReaderSize(r, lineBuffer), edit: edit, left: first}
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.left) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		piece, err := l.from.ReadSlice('\n')
		if l.left = piece; !l.within && len(piece) > 0 {
			l.left = l.edit(piece)
		}
		l.within = errors.Is(err, bufio.ErrBufferFull)
		if !l.within {
			l.err = err
		}
	}
	n := copy(p, l.left)
	l.left = l.left[n:]
	return n, nil
}

// restrict and unrestrict are the marks between which psql refuses its own commands, as dumps of newer versions carry them.
var restrict, unrestrict = []byte(`\restrict `), []byte(`\unrestrict `)

// Restricted is a dump of PostgreSQL as psql is to read it: psql refuses all commands of its own in it, such as \! and \copy, since the
// key that would end that is known to nobody but the caller. The marks that the dump itself brings are left out; psql
// knows none within others.
func Restricted(dump io.Reader, key string) io.Reader {
	return unmarked(dump, append(append(bytes.Clone(restrict), key...), '\n'))
}

// Unrestricted is a dump of PostgreSQL without those marks, as a server reads it.
func Unrestricted(dump io.Reader) io.Reader { return unmarked(dump, nil) }

func unmarked(dump io.Reader, first []byte) io.Reader {
	var own []byte // the dump's own key
	head := true
	return newLines(dump, first, func(line []byte) []byte {
		switch plain := bytes.TrimRight(line, "\r\n"); {
		case head && bytes.HasPrefix(plain, restrict):
			own, head = append(bytes.Clone(unrestrict), plain[len(restrict):]...), false
			return nil
		case own != nil && bytes.Equal(plain, own):
			return nil
		case len(plain) > 0 && !bytes.HasPrefix(plain, []byte("--")):
			head = false // its marks stand before all else
		}
		return line
	})
}

// sandboxMark is the first line of dumps of MariaDB, which its newer clients take for leave to run no command of their own.
const sandboxMark = `/*!999999\- enable the sandbox mode */`

var (
	definer = regexp.MustCompile("DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*`")
	// defining are how lines begin that say whose a view, trigger, event, procedure or function is.
	defining = regexp.MustCompile(`^(?:/\*![0-9]{5,6} (?:DEFINER=|CREATE)|CREATE DEFINER=)`)
)

// WithoutDefiners is a dump of MariaDB or MySQL in which views, triggers, events and routines belong to whoever reads it in: only
// administrators may make what is another user's. With sandbox, MariaDB's client is told first to run no command of its own; other
// clients don't know the line, and are spared the dump's.
func WithoutDefiners(dump io.Reader, sandbox bool) io.Reader {
	var first []byte
	if sandbox {
		first = []byte(sandboxMark + "\n")
	}
	return newLines(dump, first, func(line []byte) []byte {
		switch {
		case bytes.Equal(bytes.TrimRight(line, "\r\n"), []byte(sandboxMark)):
			return nil
		case defining.Match(line):
			return definer.ReplaceAll(line, nil)
		}
		return line
	})
}

// ownedBy is how what a server shows of a trigger or an event begins.
var ownedBy = regexp.MustCompile("^CREATE DEFINER=`(?:[^`]|``)*`@`(?:[^`]|``)*` ")

// WithoutDefiner is the statement that makes one trigger or event, which then belongs to whoever makes it.
func WithoutDefiner(statement string) string { return ownedBy.ReplaceAllString(statement, "CREATE ") }

// Lines passes a dump on and shows the beginning of each line.
func Lines(dump io.Reader, show func(line []byte)) io.Reader {
	return newLines(dump, nil, func(line []byte) []byte {
		show(line)
		return line
	})
}

// ofTable is how a dump of MariaDB or MySQL says whose rows follow.
var ofTable = regexp.MustCompile("^-- Dumping data for table `((?:[^`]|``)+)`")

// Watched passes a dump of MariaDB or MySQL on. table is called when rows of another one begin, bytes with the number of those that were read.
func Watched(dump io.Reader, table func(name string), bytes func(n int)) io.Reader {
	return Lines(counted{dump, bytes}, func(line []byte) {
		if found := ofTable.FindSubmatch(line); found != nil {
			table(string(found[1]))
		}
	})
}

type counted struct {
	io.Reader
	read func(n int)
}

// Read implements io.Reader.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read(n)
	return n, err
}
