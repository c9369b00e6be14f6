package postgresql

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// A source's changes come as pgoutput writes them, its protocol's version 1: whole transactions in the order of their commits, values as text. They
// are anybody's bytes: whatever is short, long or unknown is an error, and nothing is made as large as a message only claims to be.

// errMangled is a message that isn't one.
var errMangled = errors.New("the source's changes can't be read")

// The kinds of changes.
const (
	changeBegin    = 'B'
	changeCommit   = 'C'
	changeRelation = 'R'
	changeInsert   = 'I'
	changeUpdate   = 'U'
	changeDelete   = 'D'
	changeTruncate = 'T'
)

// change is one message. What it has depends on its kind; old and new are slices of the message.
type change struct {
	kind byte
	// end is the place where a transaction ends, of changeCommit; of changeBegin the place of its commit.
	end lsn
	// relation is the table, of rows and changeRelation; relations are the tables of changeTruncate.
	relation  uint32
	relations []uint32
	shape     *relationShape
	// old is the row before, whole when oldWhole is set and else only its key, nil when the key stays; row the row after.
	old, row []field
	oldWhole bool
}

// relationShape is what a source says of a table.
type relationShape struct {
	schema, name string
	// whole reports whether the old row is sent whole (REPLICA IDENTITY FULL).
	whole   bool
	columns []shapeColumn
}

type shapeColumn struct {
	name string
	key  bool
}

// field is one value of a row: nil and not left is NULL; left is a large value that stays as it is.
type field struct {
	value []byte
	left  bool
}

// mostColumns is how many columns a table of PostgreSQL's can have.
const mostColumns = 1600

// scanner reads a message from its beginning; after its end all is zero and bad is set.
type scanner struct {
	left []byte
	bad  bool
}

func (s *scanner) take(n int) []byte {
	if s.bad || n < 0 || n > len(s.left) {
		s.bad = true
		return nil
	}
	taken := s.left[:n]
	s.left = s.left[n:]
	return taken
}

func (s *scanner) byte() byte {
	if b := s.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (s *scanner) short() int {
	if b := s.take(2); b != nil {
		return int(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (s *scanner) long() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) place() lsn {
	if b := s.take(8); b != nil {
		return lsn(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (s *scanner) text() string {
	end := bytes.IndexByte(s.left, 0)
	text := s.take(end)
	s.take(1)
	return string(text)
}

// parseChange reads a message; ok is false for one that says nothing to us.
func parseChange(message []byte) (c change, ok bool, err error) {
	s := &scanner{left: message}
	c.kind = s.byte()
	switch c.kind {
	case changeBegin:
		c.end = s.place()
	case changeCommit:
		s.take(1 + 8) // flags, the place of the commit
		c.end = s.place()
	case changeRelation:
		c.relation, c.shape = s.long(), s.relation()
	case changeInsert:
		c.relation = s.long()
		s.bad = s.bad || s.byte() != 'N'
		c.row = s.row()
	case changeUpdate:
		c.relation = s.long()
		kind := s.byte()
		if kind == 'K' || kind == 'O' {
			c.old, c.oldWhole = s.row(), kind == 'O'
			kind = s.byte()
		}
		s.bad = s.bad || kind != 'N'
		c.row = s.row()
	case changeDelete:
		c.relation = s.long()
		kind := s.byte()
		s.bad = s.bad || kind != 'K' && kind != 'O'
		c.old, c.oldWhole = s.row(), kind == 'O'
	case changeTruncate:
		n := s.long()
		s.byte() // nothing here depends on the tables yet, and sequences are set at the end
		for i := uint32(0); i < n && !s.bad; i++ {
			c.relations = append(c.relations, s.long())
		}
	case 'O', 'Y', 'M': // where a change comes from, a type, a message of somebody's
		return c, false, nil
	default:
		s.bad = true
	}
	if s.bad {
		return c, false, errMangled
	}
	return c, true, nil
}

func (s *scanner) relation() *relationShape {
	r := &relationShape{schema: s.text(), name: s.text()}
	r.whole = s.byte() == 'f'
	n := s.short()
	s.bad = s.bad || n > mostColumns
	for i := 0; i < n && !s.bad; i++ {
		flags := s.byte()
		r.columns = append(r.columns, shapeColumn{name: s.text(), key: flags&1 != 0})
		s.take(4 + 4) // its type and modifier
	}
	return r
}

func (s *scanner) row() []field {
	n := s.short()
	if s.bad = s.bad || n > mostColumns; s.bad {
		return nil
	}
	row := make([]field, 0, n)
	for i := 0; i < n && !s.bad; i++ {
		switch s.byte() {
		case 'n':
			row = append(row, field{})
		case 'u':
			row = append(row, field{left: true})
		case 't':
			row = append(row, field{value: s.take(int(s.long()))})
		default:
			s.bad = true
		}
	}
	return row
}
