package mysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"github.com/go-sql-driver/mysql"

	"steward/internal/engine"
	"steward/internal/failpoint"
	"steward/internal/insight"
)

const (
	// writeAtOnce is how much is gathered before it is sent to the target, writeFor for how long transactions of a busy source share one here.
	writeAtOnce = 1 << 20
	writeFor    = 100 * time.Millisecond
	// tidyAccount bounds the removal of the account that writes.
	tidyAccount = 10 * time.Second
)

// writer writes a source's rows into the target as a server does that applies a log: by BINLOG. Its account can do nothing else, in no other
// database, and not where nobody may write.
type writer struct {
	n engine.Node
	// database is the target's, slot names what is noted of it and whom it is written as.
	database, slot string
	s              *session
	// excuses has the source not be taken for silent while the target is waited for, until what it returns is called.
	excuses func() (end func())
	// number is the target's, sums reports whether what it is given has checksums.
	number uint32
	sums   bool
	// done are events of transactions of the source's that have ended, under those of the one that hasn't. They are sent together.
	done, under []byte
	// open reports whether a transaction has begun here, part whether it has a part of one of the source's that hasn't ended.
	open, part bool
	begun      time.Time
	// upTo is how far it is, noted what the target knows of that.
	upTo, noted binlogPosition
}

// writer opens one. Close it.
func (d *Driver) writer(ctx context.Context, n engine.Node, database, slot string, upTo binlogPosition) (*writer, error) {
	password, err := d.makeWriter(ctx, n, database, slot)
	if err != nil {
		return nil, fmt.Errorf("make the account that writes what the source sends: %w", err)
	}
	w := &writer{n: n, database: database, slot: slot, upTo: upTo, noted: upTo, excuses: func() func() { return func() {} }}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.ClientFoundRows, cfg.MaxAllowedPacket = slot, password, "unix", socketFile(n), true, 0
	if w.s, err = open(ctx, cfg); err != nil {
		return nil, fmt.Errorf("connect to node %d to write what the source sends: %w", n.Ordinal, err)
	}
	format, err := d.ownFormat(ctx, n)
	if err == nil {
		err = w.begin(ctx, format)
	}
	if err != nil {
		w.s.close()
		return nil, fmt.Errorf("prepare to write what the source sends: %w", err)
	}
	return w, nil
}

// makeWriter makes the account anew, with a password that nobody else has.
func (d *Driver) makeWriter(ctx context.Context, n engine.Node, database, slot string) (password string, err error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return "", err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return "", err
	}
	password = rand.Text()
	f := flavourOf(n.Installation.Flavour)
	verifier, err := f.verifier(password)
	if err != nil {
		return "", err
	}
	who := writerAccount(slot)
	return password, s.exec(ctx, "DROP USER IF EXISTS "+who, "CREATE USER "+who+" IDENTIFIED "+verifier, "GRANT "+f.dialect().applies+" ON *.* TO "+who,
		"GRANT SELECT, INSERT, UPDATE, DELETE, DROP ON "+inside{d, n}.pattern(database)+".* TO "+who)
}

func writerAccount(slot string) string { return identifier(slot) + "@`localhost`" }

// endWriters ends sessions of a steward that was killed, of which the server may still carry out the last statement: how far it is can be read when
// they are gone.
func (d *Driver) endWriters(ctx context.Context, n engine.Node, slot string) error {
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	for {
		left, err := s.rows(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = "+literalText(slot)+" COLLATE utf8mb4_bin")
		if err != nil || len(left) == 0 {
			return err
		}
		for _, r := range left {
			if err := s.exec(ctx, "KILL "+r[0]); err != nil && !is(err, errNoSuchThread) {
				return err
			}
		}
		if err := pause(ctx, "end who wrote before"); err != nil {
			return err
		}
	}
}

// dropWriter removes the account; it may be repeated.
func (d *Driver) dropWriter(ctx context.Context, n engine.Node, slot string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyAccount)
	defer cancel()
	s, err := d.admin(ctx, n)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.unlogged(ctx); err != nil {
		return err
	}
	return s.exec(ctx, "DROP USER IF EXISTS "+writerAccount(slot))
}

// ownFormat is how a log of the target's begins: what it is given has the form that it writes itself.
func (d *Driver) ownFormat(ctx context.Context, n engine.Node) (logEvent, error) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return nil, err
	}
	defer s.close()
	logs, err := s.rows(ctx, "SHOW BINARY LOGS")
	if err != nil || len(logs) == 0 {
		return nil, errors.Join(err, errors.New("the server has no binary log"))
	}
	p, err := d.dump(ctx, n, logs[len(logs)-1][0])
	if err != nil {
		return nil, err
	}
	defer p.Close()
	start := make([]byte, len(binlogMagic)+eventHeader)
	if _, err := io.ReadFull(p, start); err != nil {
		return nil, err
	}
	header := start[len(binlogMagic):]
	size, err := checkEvent(header)
	if err != nil {
		return nil, err
	}
	format := append(logEvent{}, header...)
	format = append(format, make([]byte, size-eventHeader)...)
	_, err = io.ReadFull(p, format[eventHeader:])
	return format, err
}

// begin tells the server what form what comes has.
func (w *writer) begin(ctx context.Context, format logEvent) error {
	const tail = 1 + 4 // kind of checksum, checksum
	w.sums = format[len(format)-tail] == 1
	number, err := w.s.text(ctx, "SELECT @@GLOBAL.server_id")
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(number, &w.number); err != nil {
		return fmt.Errorf("the server's number: %w", err)
	}
	statements := []string{"SET SESSION lock_wait_timeout = 10, innodb_lock_wait_timeout = 10", "BINLOG '" + base64.StdEncoding.EncodeToString(format) + "'"}
	return w.s.exec(ctx, append(statements, flavourOf(w.n.Installation.Flavour).dialect().afterFormat...)...)
}

func (w *writer) close() { w.s.close() }

// event is one for the target.
func (w *writer) event(kind byte, when uint32, body []byte) []byte {
	const sum = 4
	size := eventHeader + len(body)
	if w.sums {
		size += sum
	}
	e := make([]byte, 0, size)
	e = append(binary.LittleEndian.AppendUint32(e, when), kind)
	e = binary.LittleEndian.AppendUint32(e, w.number)
	e = binary.LittleEndian.AppendUint32(e, uint32(size))
	e = append(e, make([]byte, eventHeader-len(e))...) // nowhere in a log, without flags
	e = append(e, body...)
	if w.sums {
		e = binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
	}
	return e
}

// mapped is the table of some rows, as the target knows it.
func (w *writer) mapped(t *tableMap, id uint64) []byte {
	var whole [8]byte
	binary.LittleEndian.PutUint64(whole[:], id)
	body := append([]byte{}, whole[:flagsAt]...)
	body = binary.LittleEndian.AppendUint16(body, t.flags)
	for _, name := range []string{w.database, t.table} {
		body = append(append(append(body, byte(len(name))), name...), 0)
	}
	return append(body, t.shape...)
}

// take takes what the log has told; more reports whether something else waits already.
func (w *writer) take(ctx context.Context, t logged, more bool) error {
	switch t.says {
	case saysRows:
		return w.rows(ctx, t)
	case saysTruncate:
		return w.truncate(ctx, t)
	case saysRollback:
		w.under = nil
		if w.part {
			if err := w.exec(ctx, "ROLLBACK TO SAVEPOINT steward"); err != nil {
				return err
			}
		}
	}
	w.done, w.under = append(w.done, w.under...), nil
	w.part, w.upTo = false, t.upTo
	switch {
	case w.open && (!more || time.Since(w.begun) > writeFor):
		return w.commit(ctx)
	case len(w.done) > writeAtOnce:
		return w.send(ctx)
	}
	return nil
}

// rows gathers some. Each event is told its table anew, and ends by itself: one statement of the source's may have any number of them.
func (w *writer) rows(ctx context.Context, t logged) error {
	if !w.open {
		if err := w.exec(ctx, "BEGIN"); err != nil {
			return err
		}
		w.open, w.begun = true, time.Now()
	}
	h, err := rowsOf(t.rows)
	if err != nil {
		return err
	}
	rows := bytes.Clone(t.rows)
	flags := h.flags | statementEnds
	if flags&keysBySQL != 0 { // what a key does to other rows is in the log: MySQL 9.7.4 died of a look at keys in one of three imports on a busy machine
		flags |= keysUnchecked
	}
	binary.LittleEndian.PutUint16(rows[flagsAt:], flags)
	w.under = append(append(w.under, w.event(eventTableMap, t.when, w.mapped(t.table, h.table))...), w.event(t.kind, t.when, rows)...)
	if len(w.under) > writeAtOnce {
		return w.sendPart(ctx)
	}
	return nil
}

// sendPart sends what was gathered, with what may yet be rolled back.
func (w *writer) sendPart(ctx context.Context) error {
	if err := w.send(ctx); err != nil || len(w.under) == 0 {
		return err
	}
	if !w.part {
		if err := w.exec(ctx, "SAVEPOINT steward"); err != nil {
			return err
		}
		w.part = true
	}
	w.done, w.under = w.under, nil
	return w.send(ctx)
}

// truncate does what the source did to a table: by itself, as it commits what is open.
func (w *writer) truncate(ctx context.Context, t logged) error {
	if err := w.commit(ctx); err != nil {
		return err
	}
	if err := w.exec(ctx, "SET SESSION foreign_key_checks = OFF", "TRUNCATE TABLE "+identifier(w.database)+"."+identifier(t.truncated), "SET SESSION foreign_key_checks = ON"); err != nil {
		return err
	}
	w.part, w.upTo = false, t.upTo
	return w.note(ctx)
}

// whole reports whether all that was taken is written.
func (w *writer) whole() bool { return !w.open }

// commit makes what was sent the target's, with how far it is.
func (w *writer) commit(ctx context.Context) error {
	if !w.open {
		return nil
	}
	if err := w.send(ctx); err != nil {
		return err
	}
	failpoint.Here("mysql: rows sent")
	if err := w.note(ctx); err != nil {
		return err
	}
	failpoint.Here("mysql: rows written")
	return nil
}

// note writes how far it is, and ends the transaction.
func (w *writer) note(ctx context.Context) error {
	defer w.excuses()()
	result, err := w.s.conn.ExecContext(ctx, "UPDATE "+identifier(w.database)+"."+followTable+" SET file = "+literalText(w.upTo.file)+
		fmt.Sprintf(", at = %d, noted = UTC_TIMESTAMP(6) WHERE slot = ", w.upTo.at)+literalText(w.slot))
	if err != nil {
		return w.failed(ctx, err)
	}
	if found, err := result.RowsAffected(); err != nil || found != 1 {
		return errors.Join(err, engine.ErrUnnoted)
	}
	if err := w.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	w.open, w.noted = false, w.upTo
	return nil
}

// send sends what was gathered of transactions that have ended.
func (w *writer) send(ctx context.Context) error {
	if len(w.done) == 0 {
		return nil
	}
	events := w.done
	w.done = nil
	return w.exec(ctx, "BINLOG '"+base64.StdEncoding.EncodeToString(events)+"'")
}

// exec runs statements one by one: BINLOG can't be one of several that are sent together.
func (w *writer) exec(ctx context.Context, statements ...string) error {
	defer w.excuses()()
	for _, q := range statements {
		if _, err := w.s.conn.ExecContext(ctx, q); err != nil {
			return w.failed(ctx, err)
		}
	}
	return nil
}

// Numbers with which a server refuses rows.
const (
	errDuplicate    = 1062
	errNoRow        = 1032
	errDeadlock     = 1213
	errUnknown      = 1105
	errRowReferred  = 1451
	errNoReferred   = 1452
	errConversion   = 1677
	errShutdown     = 1053
	errConnectionMD = 1927
)

// failed is why the target didn't take something. MySQL says of rows only that they failed, and why in a warning.
func (w *writer) failed(ctx context.Context, err error) error {
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	if !ok {
		return fmt.Errorf("write what the source sends: %w", err)
	}
	number, reason := refused.Number, refused.Message
	if warnings, failed := w.s.rows(ctx, "SHOW WARNINGS"); failed == nil && number == errUnknown && len(warnings) > 0 {
		reason = warnings[0][2]
		_, _ = fmt.Sscan(warnings[0][1], &number) // it stays unknown then
	}
	switch number {
	case errNoRow, errDuplicate, errRowReferred, errNoReferred:
		return &engine.SourceError{Reason: "A row that the source has changed isn't as it was there: it was changed here meanwhile. Begin again, and write nothing here before the cutover. (" + insight.Said(reason) + ")"}
	case errReadOnly, errReadOnlyTables:
		return &engine.SourceError{Reason: "The database has no room left for what comes from the source, or its primary changes: give it a larger type.", Passing: true}
	case errDeadlock, errLockWaitTimeout, errShutdown, errConnectionMD:
		return fmt.Errorf("write what the source sends: %w", err)
	}
	return &engine.SourceError{Reason: "The database refuses what comes from the source: " + insight.Said(reason)}
}
