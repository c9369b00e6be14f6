package mysql

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sync/semaphore"

	"steward/internal/engine"
)

// More kinds of events.
const (
	eventQuery       = 2
	eventXid         = 16
	eventLoadQuery   = 18
	eventIncident    = 26
	eventXAPrepare   = 38
	eventPartialRows = 39
	eventPayload     = 40
)

const (
	// mostEvent bounds one event of a source's, which is held in memory: as text it has to fit into what the target takes at once.
	mostEvent = 40 << 20
	// mostSmallEvent is how large an event may be of which each of a migration's streams may hold some at once, mostHeld how many bytes of them.
	mostSmallEvent, mostHeld = 1 << 20, 4 << 20
	mostWaiting              = 512
	// takeTurn is how long a stream waits at a time for its turn to hold a large event.
	takeTurn = 50 * time.Millisecond
	// mostMapped is how many tables one statement changes that are followed.
	mostMapped = 4096
	// heartbeat is how often a source that has nothing to send says so.
	heartbeat = 2 * time.Second
)

// logName is what binary logs are called.
var logName = regexp.MustCompile(`^[A-Za-z0-9_.+-]{1,200}\.[0-9]{6,10}$`)

// binlogPosition is one in a source's binary logs.
type binlogPosition struct {
	file string
	at   uint64
}

func (p binlogPosition) String() string { return fmt.Sprintf("%s:%d", p.file, p.at) }

// parseBinlogPosition reads what a source says of its logs.
func parseBinlogPosition(file, at string) (p binlogPosition, err error) {
	p.file = file
	if p.at, err = strconv.ParseUint(at, 10, 63); err != nil || !logName.MatchString(file) {
		return p, errNotMySQL
	}
	return p, nil
}

// number is the log's.
func (p binlogPosition) number() uint64 {
	n, _ := strconv.ParseUint(p.file[strings.LastIndexByte(p.file, '.')+1:], 10, 64) // it has the form of one
	return n
}

// before reports whether another position comes later.
func (p binlogPosition) before(other binlogPosition) bool {
	if p.number() != other.number() {
		return p.number() < other.number()
	}
	return p.at < other.at
}

// logged is something that a source's log has told.
type logged struct {
	says meaning
	// table, kind, rows and when are of an event of rows.
	table *tableMap
	kind  byte
	rows  []byte
	when  uint32
	// truncated is a table of which all rows went.
	truncated string
	// upTo is where the log is after it, of what ends a transaction.
	upTo binlogPosition
	// size is how much of the memory for what waits it takes; large reports whether other streams wait until it is held no longer.
	size  int64
	large bool
}

// sourceLog receives what a source logs, from a position on.
type sourceLog struct {
	s        engine.Source
	database string
	session  *session
	conn     net.Conn
	in       *bufio.Reader
	// file is the log that is being read, sums reports whether its events have a checksum at their end.
	file string
	sums bool
	// tables are those of the current statement by their numbers; nil for what isn't followed.
	tables map[uint64]*tableMap
	// within reports whether a transaction has begun, ours whether it has rows that are followed, twoPhase whether another statement may end it.
	within, ours, twoPhase bool
	// sent is how much has come since the last commit, last where that was.
	sent int64
	last binlogPosition
	out  chan logged
	room *semaphore.Weighted
	// holds reports whether other streams of the migration wait with their large events.
	holds atomic.Bool
}

// openLog begins to receive a source's log from a position on.
func openLog(ctx context.Context, s engine.Source, database string, from binlogPosition) (*sourceLog, error) {
	unbounded := s // how much it sends without a commit is counted here
	unbounded.Received, unbounded.Most = &engine.Received{}, math.MaxInt64
	l := &sourceLog{
		s: s, database: database, file: from.file, tables: map[uint64]*tableMap{}, out: make(chan logged, mostWaiting), room: semaphore.NewWeighted(mostHeld),
	}
	cfg := sourceConfig(s)
	cfg.TLS = nil
	cfg.DialFunc = func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
		if conn, err = unbounded.Connect(ctx); err != nil {
			return nil, err
		}
		if l.conn = conn; s.TLS == nil {
			return conn, nil
		}
		h, err := handshake(ctx, conn, s.TLS)
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		l.conn = h
		return h, nil
	}
	if s.TLS != nil {
		cfg.Net = "unix" // a password may be sent as it is: what encrypts is beneath
	}
	var err error
	if l.session, err = openGuarded(ctx, cfg); err != nil {
		return nil, sourceFailed(s, err)
	}
	l.in = bufio.NewReaderSize(l.conn, 256<<10)
	if err := l.ask(ctx, from); err != nil {
		l.session.close()
		return nil, sourceFailed(s, err)
	}
	return l, nil
}

// ask asks for the log as a replica does, which has a number that no other has.
func (l *sourceLog) ask(ctx context.Context, from binlogPosition) error {
	if err := l.session.exec(ctx, fmt.Sprintf("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, @source_binlog_checksum = @@GLOBAL.binlog_checksum, @mariadb_slave_capability = 4, "+
		"@master_heartbeat_period = %[1]d, @source_heartbeat_period = %[1]d", heartbeat.Nanoseconds())); err != nil {
		return err
	}
	sums, err := l.session.text(ctx, "SELECT @@GLOBAL.binlog_checksum")
	if err != nil {
		return err
	}
	l.sums = sums == "CRC32"
	const own = 1 << 31
	command := []byte{commandDump}
	command = binary.LittleEndian.AppendUint32(command, uint32(from.at))
	command = binary.LittleEndian.AppendUint16(command, 0)
	command = binary.LittleEndian.AppendUint32(command, own|rand.Uint32())
	command = append(command, from.file...)
	_, err = l.conn.Write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(command))), command...))
	return err
}

func (l *sourceLog) close() {
	l.conn.Close()
	l.session.close()
}

// run passes on what comes, until ctx or the log ends.
func (l *sourceLog) run(ctx context.Context) error {
	defer close(l.out)
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	for {
		e, large, err := l.event(ctx)
		if err == nil {
			err = l.take(ctx, e, large)
		}
		if err != nil {
			return err
		}
	}
}

// event reads the next one, without the checksum.
func (l *sourceLog) event(ctx context.Context) (e logEvent, large bool, err error) {
	packet, large, err := l.packet(ctx)
	if err != nil {
		return nil, large, err
	}
	switch {
	case len(packet) == 0:
		return nil, large, mangled()
	case packet[0] == packetError:
		return nil, large, l.refused(packet)
	case packet[0] == packetEnd && len(packet) < packetEndLen:
		return nil, large, errors.New("the source has ended its log")
	case packet[0] != packetOK:
		return nil, large, mangled()
	}
	e = packet[1:]
	if size, err := checkEvent(e); err != nil || size != len(e) {
		return nil, large, mangled()
	}
	const sum = 4
	format := e.kind() == eventFormat
	if format {
		if err := l.format(e); err != nil {
			return nil, large, err
		}
	}
	if !l.sums && !format {
		return e, large, nil
	}
	if len(e) < eventHeader+sum {
		return nil, large, mangled()
	}
	body := e[:len(e)-sum]
	if !format && crc32.ChecksumIEEE(body) != binary.LittleEndian.Uint32(e[len(body):]) {
		return nil, large, &engine.SourceError{Reason: "What the source sends was damaged on its way.", Passing: true}
	}
	return body, large, nil
}

func mangled() error { return &engine.SourceError{Reason: errMangledLog.Error() + "."} }

// format learns of the log's form: what isn't the one that is known isn't read.
func (l *sourceLog) format(e logEvent) error {
	const (
		lengths = 2 + 50 + 4 // version, server, time
		tail    = 1 + 4      // kind of checksum, checksum
		mapLen  = 8
	)
	body := e.body()
	lengthOf := func(kind int) byte { return body[lengths+kind] }
	if len(body) < lengths+eventDeleteRows1+1+tail || lengthOf(0) != eventHeader || lengthOf(eventTableMap) != mapLen {
		return mangled()
	}
	l.sums = body[len(body)-tail] == 1
	return nil
}

// refused is what a source says instead of going on.
func (l *sourceLog) refused(packet []byte) error {
	const code, state = 1, 9 // where an error's number and text begin
	if len(packet) < state {
		return mangled()
	}
	number := binary.LittleEndian.Uint16(packet[code:])
	const logGone = 1236
	if number == logGone {
		return &engine.SourceError{Reason: "The source doesn't have the part of its binary log any more from which it is followed, or can't read it: " + shownBytes(packet[state:]) + ". Begin again; the logs have to be kept longer there."}
	}
	return sourceFailed(l.s, &mysql.MySQLError{Number: number, Message: string(packet[state:])})
}

// packet joins what the protocol has cut, up to a size. What is large but not too large waits until no other stream of the migration holds such.
func (l *sourceLog) packet(ctx context.Context) (whole []byte, large bool, err error) {
	for {
		var header [packetHeader]byte
		if _, err := io.ReadFull(l.in, header[:]); err != nil {
			return nil, large, l.ended(ctx, err)
		}
		size := packetSize(header[:])
		if len(whole)+size > mostEvent {
			return nil, large, &engine.SourceError{Reason: fmt.Sprintf("It was given up: a row that the source sends is larger than %d MB.", mostEvent>>20)}
		}
		if size > mostSmallEvent && !large {
			if err := l.turn(ctx); err != nil {
				return nil, large, err
			}
			large = true
		}
		if whole, err = readMore(l.in, whole, size); err != nil {
			return nil, large, l.ended(ctx, err)
		}
		if l.sent += int64(size); l.sent > l.s.Most {
			return nil, large, &engine.SourceError{Reason: "It was given up: " + engine.ErrEndless.Error() + "."}
		}
		if size < packetMost {
			return whole, large, nil
		}
	}
}

// turn waits until the stream may hold a large event.
func (l *sourceLog) turn(ctx context.Context) error {
	if l.s.Large == nil {
		return nil
	}
	defer l.s.Excused()()
	for !l.s.Large.Take(takeTurn) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	l.holds.Store(true)
	return nil
}

// ended is why there is no more.
func (l *sourceLog) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, engine.ErrSilent):
		return &engine.SourceError{Reason: "It was given up: " + engine.ErrSilent.Error() + ".", Passing: true}
	}
	return fmt.Errorf("read the source's log: %w", err)
}

// take passes an event on, if it is about what is followed.
func (l *sourceLog) take(ctx context.Context, e logEvent, large bool) error {
	told, err := l.read(e)
	if err != nil {
		return err
	}
	if told == nil {
		if large {
			l.give()
		}
		return nil
	}
	if told.says != saysRows {
		if told.upTo.before(l.last) { // positions have 32 bits
			return &engine.SourceError{Reason: "A log of the source's is larger than 4 GB. Begin again."}
		}
		l.last = told.upTo
	}
	told.large, told.size = large, min(int64(len(told.rows))+1, mostHeld)
	if err := l.room.Acquire(ctx, told.size); err != nil {
		return err
	}
	select {
	case l.out <- *told:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// taken notes that what was passed on is held no longer.
func (l *sourceLog) taken(t logged) {
	l.room.Release(t.size)
	if t.large {
		l.give()
	}
}

// give lets other streams hold large events.
func (l *sourceLog) give() {
	if l.holds.Swap(false) {
		l.s.Large.Give()
	}
}

// read says what an event tells; nil for nothing.
func (l *sourceLog) read(e logEvent) (*logged, error) {
	switch kind := e.kind(); {
	case kind == eventRotate:
		return l.rotate(e)
	case kind == eventMariaDBGTID:
		return l.begun(e)
	case kind == eventTableMap:
		return nil, l.maps(e)
	case isRows(kind):
		return l.rows(e)
	case kind == eventXid:
		return l.ends(saysCommit, e), nil
	case kind == eventQuery:
		return l.query(e)
	case kind == eventXAPrepare:
		return l.prepared(e)
	case kind == eventIncident:
		return nil, &engine.SourceError{Reason: "The source has lost a part of its log. Begin again."}
	case kind == eventPayload, kind >= eventWriteCompressed && kind <= eventDeleteCompressed:
		return nil, &engine.SourceError{Reason: "The source compresses its log: set log_bin_compress (MariaDB) or binlog_transaction_compression (MySQL) to OFF there and begin again."}
	case kind == eventPartialRows:
		return nil, &engine.SourceError{Reason: "The source logs parts of JSON values: set binlog_row_value_options to nothing there and begin again."}
	case kind == eventLoadQuery:
		return nil, l.loads(e)
	case e.between(), kind == eventHeartbeat, kind == eventHeartbeatLong:
		return l.goesOn(e), nil
	}
	return nil, nil
}

// goesOn is a position that the log has come to without a transaction: a log begins with what is none, and may end with it.
func (l *sourceLog) goesOn(e logEvent) *logged {
	if upTo := l.after(e); !l.within && upTo.at > 0 && l.last.before(upTo) {
		return &logged{says: saysCommit, upTo: upTo}
	}
	return nil
}

// after is where the log is after an event; of those that are in no log it is 0.
func (l *sourceLog) after(e logEvent) binlogPosition {
	const logPos = 13
	return binlogPosition{l.file, uint64(binary.LittleEndian.Uint32(e[logPos:]))}
}

// rotate goes on with another log.
func (l *sourceLog) rotate(e logEvent) (*logged, error) {
	const at = 8
	body := e.body()
	if len(body) <= at {
		return nil, mangled()
	}
	next, err := parseBinlogPosition(string(body[at:]), strconv.FormatUint(binary.LittleEndian.Uint64(body), 10))
	if err != nil || l.within {
		return nil, mangled()
	}
	l.file = next.file
	return &logged{says: saysCommit, upTo: next}, nil
}

// begun is how MariaDB says that a transaction begins, or a statement that commits by itself.
func (l *sourceLog) begun(e logEvent) (*logged, error) {
	const flags, alone = 12, 1
	body := e.body()
	if len(body) <= flags {
		return nil, mangled()
	}
	l.begin()
	l.within = body[flags]&alone == 0
	return nil, nil
}

func (l *sourceLog) begin() { l.within, l.ours, l.twoPhase = true, false, false }

// ends is the end of a transaction.
func (l *sourceLog) ends(how meaning, e logEvent) *logged {
	l.within, l.ours, l.twoPhase, l.sent = false, false, false, 0
	clear(l.tables)
	return &logged{says: how, upTo: l.after(e)}
}

// maps learns of a table.
func (l *sourceLog) maps(e logEvent) error {
	id, t, err := parseTableMap(e.body())
	if err != nil || len(l.tables) >= mostMapped {
		return mangled()
	}
	l.tables[id] = nil
	if t.schema == l.database && t.table != followTable {
		l.tables[id] = &t
	}
	return nil
}

// rows passes rows on of a table that is followed.
func (l *sourceLog) rows(e logEvent) (*logged, error) {
	h, err := rowsOf(e.body())
	if err != nil {
		return nil, mangled()
	}
	t, known := l.tables[h.table]
	const dummy = 0xffffff // of a statement that changed nothing
	if !known && h.table != dummy {
		return nil, mangled()
	}
	if h.flags&statementEnds != 0 {
		defer clear(l.tables)
	}
	if t == nil {
		return nil, nil
	}
	if err := t.checkRows(e.kind(), e.body()); err != nil {
		return nil, mangled()
	}
	if l.twoPhase {
		return nil, errTwoPhase
	}
	l.ours = true
	return &logged{says: saysRows, table: t, kind: e.kind(), rows: e.body(), when: binary.LittleEndian.Uint32(e)}, nil
}

// errTwoPhase is a transaction of which nobody knows at its end whether it will be.
var errTwoPhase = &engine.SourceError{Reason: "A client of the source writes in two-phase transactions (XA), which can't be followed. Use mode dump, or have it stop and begin again."}

// prepared is the end of the first phase of a transaction in two.
func (l *sourceLog) prepared(e logEvent) (*logged, error) {
	if l.ours {
		return nil, errTwoPhase
	}
	return l.ends(saysCommit, e), nil
}

// query reads a statement.
func (l *sourceLog) query(e logEvent) (*logged, error) {
	st, err := parseStatement(e.body())
	if err != nil {
		return nil, mangled()
	}
	m, table := st.meaning(l.database)
	switch m {
	case saysBegin:
		l.begin()
		return nil, nil
	case saysTwoPhase:
		l.twoPhase = true
		if fields := strings.Fields(strings.ToUpper(st.text)); l.within || len(fields) < 2 || fields[1] != "START" && fields[1] != "BEGIN" {
			break
		}
		l.within = true
		return nil, nil
	case saysPartRollback:
		if l.ours {
			return nil, &engine.SourceError{Reason: "A client of the source has rolled a part of a transaction back that wrote to tables of more than one storage engine. Begin again."}
		}
	case saysTruncate:
		if table == followTable {
			return nil, mangled()
		}
		told := l.ends(saysTruncate, e)
		told.truncated = table
		return told, nil
	case saysChange:
		return nil, &engine.SourceError{Reason: "The source's tables or routines were changed (" + shownBytes([]byte(st.text)) + "): only rows are followed. Begin again."}
	case saysRows:
		return nil, errStatement
	case saysCommit, saysRollback:
		return l.ends(m, e), nil
	}
	if l.within {
		return nil, nil
	}
	return l.ends(saysCommit, e), nil
}

var errStatement = &engine.SourceError{Reason: "A client of the source has its changes logged as statements, not as rows: have all sessions use binlog_format = ROW there and begin again."}

// loads is LOAD DATA, logged as a statement.
func (l *sourceLog) loads(e logEvent) error {
	const more = 13 // what it has before the statement's own variables
	body := e.body()
	const fixed = 13
	if len(body) < fixed+more {
		return mangled()
	}
	st, err := parseStatement(append(bytes.Clone(body[:fixed]), body[fixed+more:]...))
	if err != nil {
		return mangled()
	}
	if st.concerns(l.database, "") {
		return errStatement
	}
	return nil
}
