package mysql

import (
	"encoding/binary"
	"errors"
	"math"
)

// Kinds of events that tell of rows: those of MariaDB, and of MySQL before 5.6, have the suffix 1.
const (
	eventTableMap    = 19
	eventWriteRows1  = 23
	eventUpdateRows1 = 24
	eventDeleteRows1 = 25
	eventWriteRows   = 30
	eventUpdateRows  = 31
	eventDeleteRows  = 32
	// MariaDB's, compressed.
	eventWriteCompressed, eventDeleteCompressed = 166, 171
)

// Types of columns in a binary log (MySQL's field_types.h, MariaDB's field_types.h).
const (
	typeTiny, typeShort, typeLong, typeFloat, typeDouble, typeNull, typeTimestamp, typeLongLong   = 1, 2, 3, 4, 5, 6, 7, 8
	typeInt24, typeDate, typeTime, typeDateTime, typeYear, typeNewDate, typeVarchar, typeBit      = 9, 10, 11, 12, 13, 14, 15, 16
	typeTimestamp2, typeDateTime2, typeTime2, typeBlobCompressed, typeVarcharCompressed           = 17, 18, 19, 140, 141
	typeVector, typeJSON, typeNewDecimal, typeEnum, typeSet                                       = 242, 245, 246, 247, 248
	typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlob, typeVarString, typeString, typeGeometry = 249, 250, 251, 252, 253, 254, 255
)

const (
	// mostColumns is how many a table has at most.
	mostColumns = 4096
	// statementEnds is the flag of a rows event after which its tables are known no longer.
	statementEnds = 1
	// keysUnchecked is that of one whose foreign keys aren't looked at, keysBySQL that of a source whose log has what foreign keys did to other rows: MySQL's
	// from 9.6 on, unless innodb_native_foreign_keys is on.
	keysUnchecked, keysBySQL = 2, 16
)

// errMangledLog is a log that isn't one.
var errMangledLog = errors.New("what the source sends isn't what it should be")

// cutter takes pieces of bytes that may lie. Once they were too short it is bad, and all that it returns is zero.
type cutter struct {
	left []byte
	bad  bool
}

func (c *cutter) bytes(n int) []byte {
	if n < 0 || n > len(c.left) {
		c.bad, c.left = true, nil
		return nil
	}
	taken := c.left[:n]
	c.left = c.left[n:]
	return taken
}

// number is one of n bytes, the least significant first.
func (c *cutter) number(n int) uint64 {
	var whole [8]byte
	copy(whole[:], c.bytes(n))
	return binary.LittleEndian.Uint64(whole[:])
}

// length is one of the protocol's, of one to nine bytes.
func (c *cutter) length() int {
	first := c.number(1)
	switch {
	case first < 251:
		return int(first)
	case first >= 252 && first <= 254:
		if n := c.number([]int{2, 3, 8}[first-252]); n <= math.MaxInt32 {
			return int(n)
		}
	}
	c.bad = true
	return 0
}

// name has its length before and a zero after it.
func (c *cutter) name() string {
	name := c.bytes(int(c.number(1)))
	c.bad = c.bad || c.number(1) != 0
	return string(name)
}

// tableMap is what a log says of a table before rows of it.
type tableMap struct {
	flags         uint16
	schema, table string
	// shape is what follows the table's name, as the log has it.
	shape []byte
	types []byte
	// meta is what the log says of each column's type.
	meta []uint16
}

// parseTableMap reads what follows the header of a table map.
func parseTableMap(body []byte) (id uint64, t tableMap, err error) {
	c := cutter{left: body}
	id, t.flags = c.number(6), uint16(c.number(2))
	t.schema, t.table = c.name(), c.name()
	t.shape = c.left
	columns := c.length()
	if columns > mostColumns {
		return id, t, errMangledLog
	}
	t.types = c.bytes(columns)
	meta := cutter{left: c.bytes(c.length())}
	c.bytes((columns + 7) / 8) // which may be null
	for _, kind := range t.types {
		t.meta = append(t.meta, meta.ofType(kind))
	}
	if c.bad || meta.bad || len(meta.left) > 0 || columns == 0 || t.schema == "" || t.table == "" {
		return id, t, errMangledLog
	}
	return id, t, nil
}

// ofType is what is said of a column of a type. What is unknown is bad: nobody could tell where its values end.
func (c *cutter) ofType(kind byte) uint16 {
	switch kind {
	case typeTiny, typeShort, typeLong, typeNull, typeTimestamp, typeLongLong, typeInt24, typeDate, typeTime, typeDateTime, typeYear, typeNewDate:
		return 0
	case typeFloat, typeDouble, typeTimestamp2, typeDateTime2, typeTime2, typeBlob, typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlobCompressed, typeJSON, typeGeometry, typeVector:
		return uint16(c.number(1))
	case typeVarchar, typeVarcharCompressed, typeBit, typeNewDecimal, typeEnum, typeSet, typeVarString, typeString:
		return uint16(c.number(2))
	}
	c.bad = true
	return 0
}

// plainSizes is how many bytes values of some types take, without what is said of the column.
var plainSizes = map[byte]int{
	typeTiny: 1, typeShort: 2, typeInt24: 3, typeLong: 4, typeLongLong: 8, typeFloat: 4, typeDouble: 8, typeNull: 0, typeYear: 1,
	typeDate: 3, typeNewDate: 3, typeTime: 3, typeDateTime: 8, typeTimestamp: 4,
}

// digitBytes is how many bytes the digits of a decimal take that fill no four bytes of nine digits.
var digitBytes = [...]int{0, 1, 1, 2, 2, 3, 3, 4, 4}

// skip passes over one value.
func (c *cutter) skip(kind byte, meta uint16) {
	low, high := int(meta&0xff), int(meta>>8)
	switch kind {
	case typeTimestamp2:
		c.bytes(4 + (low+1)/2)
	case typeDateTime2:
		c.bytes(5 + (low+1)/2)
	case typeTime2:
		c.bytes(3 + (low+1)/2)
	case typeNewDecimal:
		whole, fraction := low-high, high
		if whole < 0 {
			c.bad = true
			return
		}
		const digits, size = 9, 4
		c.bytes(whole/digits*size + digitBytes[whole%digits] + fraction/digits*size + digitBytes[fraction%digits])
	case typeBit:
		c.bytes(high + min(low, 1))
	case typeVarchar, typeVarString, typeVarcharCompressed:
		c.text(int(meta))
	case typeBlob, typeTinyBlob, typeMediumBlob, typeLongBlob, typeBlobCompressed, typeJSON, typeGeometry, typeVector:
		if low < 1 || low > 4 {
			c.bad = true
			return
		}
		c.bytes(int(c.number(low)))
	case typeEnum, typeSet:
		c.bytes(high)
	case typeString:
		c.skipString(low, high)
	default:
		c.bytes(plainSizes[kind])
	}
}

// skipString passes over a value of fixed length, which is an enumeration or a set where its first byte says so; that byte has a part of
// lengths above 255, too.
func (c *cutter) skipString(first, second int) {
	const upper = 0x30
	switch real := byte(first | upper); {
	case real == typeEnum || real == typeSet:
		c.bytes(second)
	default:
		c.text(second | (first&upper^upper)<<4)
	}
}

// text passes over one whose longest is known.
func (c *cutter) text(most int) {
	size := 1
	if most > math.MaxUint8 {
		size = 2
	}
	c.bytes(int(c.number(size)))
}

// rowsHeader is what a rows event begins with.
type rowsHeader struct {
	table uint64
	flags uint16
}

// flagsAt is where its flags are.
const flagsAt = 6

// rowsOf reads the beginning of what follows the header of a rows event.
func rowsOf(body []byte) (h rowsHeader, err error) {
	c := cutter{left: body}
	h.table, h.flags = c.number(flagsAt), uint16(c.number(2))
	if c.bad {
		return h, errMangledLog
	}
	return h, nil
}

// isRows reports whether events of a kind tell of rows, in a form that is followed.
func isRows(kind byte) bool {
	return kind >= eventWriteRows1 && kind <= eventDeleteRows1 || kind >= eventWriteRows && kind <= eventDeleteRows
}

// checkRows demands that a rows event is whole: a server takes a log's word for how long its values are.
func (t *tableMap) checkRows(kind byte, body []byte) error {
	c := cutter{left: body}
	c.bytes(flagsAt + 2)
	if kind >= eventWriteRows {
		const itself = 2
		c.bytes(int(c.number(itself)) - itself)
	}
	if c.length() != len(t.types) {
		return errMangledLog
	}
	images := [][]byte{c.bytes((len(t.types) + 7) / 8)}
	if kind == eventUpdateRows || kind == eventUpdateRows1 {
		images = append(images, c.bytes((len(t.types)+7)/8))
	}
	if c.bad || len(c.left) == 0 {
		return errMangledLog
	}
	for len(c.left) > 0 {
		for _, present := range images {
			t.skipRow(&c, present)
		}
		if c.bad {
			return errMangledLog
		}
	}
	return nil
}

// skipRow passes over one row with the columns that are present in it.
func (t *tableMap) skipRow(c *cutter, present []byte) {
	columns := 0
	for i := range t.types {
		columns += int(bit(present, i))
	}
	if columns == 0 { // such a row would have no end
		c.bad = true
	}
	null := c.bytes((columns + 7) / 8)
	n := 0
	for i, kind := range t.types {
		if c.bad {
			return
		}
		if bit(present, i) == 0 {
			continue
		}
		if bit(null, n) == 0 {
			c.skip(kind, t.meta[i])
		}
		n++
	}
}

func bit(set []byte, n int) byte { return set[n/8] >> (n % 8) & 1 }
