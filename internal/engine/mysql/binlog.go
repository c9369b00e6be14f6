package mysql

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// Parts of the binary logs' format that both flavours share, in all versions
// since 5.6 and 10.0 (MySQL's libs/mysql/binlog/event, MariaDB's sql/log_event.h).

const (
	binlogMagic = "\xfebin"
	eventHeader = 19
	// eventMost is what a server takes as one event at most.
	eventMost = 1 << 30
)

// Kinds of events.
const (
	eventStop             = 3
	eventRotate           = 4
	eventFormat           = 15
	eventHeartbeat        = 27
	eventGTID             = 33 // MySQL's
	eventAnonymous        = 34
	eventPreviousGTIDs    = 35
	eventHeartbeatLong    = 41
	eventTaggedGTID       = 42
	eventBinlogCheckpoint = 161 // this one and the following are MariaDB's
	eventMariaDBGTID      = 162
	eventGTIDList         = 163
	eventEncrypted        = 164
)

// logEvent is one event of a binary log, its header included.
type logEvent []byte

func (e logEvent) kind() byte        { return e[4] }
func (e logEvent) body() []byte      { return e[eventHeader:] }
func (e logEvent) second() time.Time { return time.Unix(int64(binary.LittleEndian.Uint32(e)), 0).UTC() }

// between reports whether the event stands between transactions, not in one.
func (e logEvent) between() bool {
	switch e.kind() {
	case eventStop, eventRotate, eventFormat, eventPreviousGTIDs, eventBinlogCheckpoint, eventGTIDList, eventEncrypted:
		return true
	}
	return false
}

// begins reports whether a transaction begins with the event, of whatever form.
func (e logEvent) begins() bool {
	switch e.kind() {
	case eventGTID, eventAnonymous, eventTaggedGTID, eventMariaDBGTID:
		return true
	}
	return false
}

// heads reports whether no log is one without the event.
func (e logEvent) heads() bool { return e.kind() == eventFormat || e.kind() == eventPreviousGTIDs }

// checkEvent looks at a header.
func checkEvent(header []byte) (size int, err error) {
	if len(header) < eventHeader {
		return 0, errors.New("an event of a binary log ends early")
	}
	size = int(binary.LittleEndian.Uint32(header[9:]))
	if size < eventHeader || size > eventMost {
		return 0, fmt.Errorf("an event of a binary log with %d bytes", size)
	}
	return size, nil
}

// logReader reads the events of a binary log that isn't encrypted.
type logReader struct {
	r      *bufio.Reader
	buffer []byte
}

func newLogReader(r io.Reader) (*logReader, error) {
	l := &logReader{r: bufio.NewReaderSize(r, 256<<10)}
	magic := make([]byte, len(binlogMagic))
	if _, err := io.ReadFull(l.r, magic); err != nil {
		return nil, fmt.Errorf("read binary log: %w", err)
	}
	if string(magic) != binlogMagic {
		return nil, fmt.Errorf("read binary log: it begins with %q", magic)
	}
	return l, nil
}

// next is valid until it is called again; io.EOF after the last event.
func (l *logReader) next() (logEvent, error) {
	header, err := l.r.Peek(eventHeader)
	if len(header) == 0 && errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read binary log: %w", err)
	}
	size, err := checkEvent(header)
	if err != nil {
		return nil, err
	}
	if cap(l.buffer) < size {
		// No more at once than has come, whatever the header says.
		var whole bytes.Buffer
		if _, err := io.CopyN(&whole, l.r, int64(size)); err != nil {
			return nil, fmt.Errorf("read binary log: %w", err)
		}
		l.buffer = whole.Bytes()
		return l.buffer, nil
	}
	l.buffer = l.buffer[:size]
	if _, err := io.ReadFull(l.r, l.buffer); err != nil {
		return nil, fmt.Errorf("read binary log: %w", err)
	}
	return l.buffer, nil
}

// transaction is what the event at its begin says of one.
type transaction struct {
	// source and number are its identity.
	source string
	number uint64
	// ended is the earliest time by which it was committed, as precisely as is known.
	ended time.Time
}

// mariaDBTransaction: there are whole seconds only, of when the COMMIT began, or a
// statement that commits by itself. That second must be over.
func (mariaDB) readTransaction(e logEvent) (transaction, error) {
	body := e.body()
	if e.kind() != eventMariaDBGTID || len(body) < 13 {
		return transaction{}, fmt.Errorf("event %d doesn't begin a transaction", e.kind())
	}
	if domain := binary.LittleEndian.Uint32(body[8:]); domain != 0 {
		return transaction{}, fmt.Errorf("a transaction of the domain %d", domain)
	}
	return transaction{number: binary.LittleEndian.Uint64(body), ended: e.second().Add(time.Second)}, nil
}

// mySQLTransaction has the microsecond of the commit on the first server.
func (mySQL) readTransaction(e logEvent) (transaction, error) {
	const (
		uuid       = 1
		number     = uuid + 16
		clock      = number + 8
		timestamps = clock + 17
		original   = uint64(1) << 55
	)
	body := e.body()
	if e.kind() != eventGTID || len(body) < timestamps+7 || body[clock] != 2 {
		return transaction{}, fmt.Errorf("event %d doesn't begin a transaction", e.kind())
	}
	micros := sevenBytes(body[timestamps:])
	if micros&original != 0 {
		if len(body) < timestamps+14 {
			return transaction{}, errors.New("an event of a binary log ends early")
		}
		micros = sevenBytes(body[timestamps+7:])
	}
	u := body[uuid:number]
	return transaction{
		source: fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]),
		number: binary.LittleEndian.Uint64(body[number:]),
		ended:  time.UnixMicro(int64(micros &^ original)).UTC(),
	}, nil
}

func sevenBytes(b []byte) uint64 {
	var whole [8]byte
	copy(whole[:7], b)
	return binary.LittleEndian.Uint64(whole[:])
}
