package mysql

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"steward/internal/engine"
)

// aMap is a table map of a table with a column of each form that values have, as servers write it.
func aMap(schema, table string) []byte {
	b := []byte{7, 0, 0, 0, 0, 0, 1, 0, byte(len(schema))}
	b = append(append(b, schema...), 0, byte(len(table)))
	b = append(append(b, table...), 0)
	types := []byte{typeLong, typeVarchar, typeVarchar, typeNewDecimal, typeBit, typeString, typeString, typeString, typeBlob, typeDateTime2, typeDouble}
	b = append(append(b, byte(len(types))), types...)
	meta := []byte{
		50, 0, 0x2c, 1, // up to 50 bytes, up to 300
		30, 10, // digits, of them after the point
		5, 1, // bits beyond the whole bytes, those
		typeEnum, 1, typeString, 10, 0xde, 0x2c, // the last of 300 bytes
		3, 6, 8,
	}
	b = append(append(b, byte(len(meta))), meta...)
	return append(b, 0xff, 0xff)
}

// aRow is one of such a table's, of which the last column is NULL.
func aRow() []byte {
	b := []byte{0x00, 0xfc} // the bits beyond the columns are set, as servers leave them
	b[1] |= 1 << 2
	b = append(b, 1, 2, 3, 4)
	b = append(append(b, 3), "abc"...)
	b = append(append(b, 2, 0), "de"...)
	b = append(b, make([]byte, 14)...) // 20 digits are 9 bytes, 10 are 5
	b = append(b, 1, 2)
	b = append(b, 1)
	b = append(append(b, 2), "fg"...)
	b = append(append(b, 1, 0), "h"...)
	b = append(append(b, 4, 0, 0), "blob"...)
	return append(b, make([]byte, 8)...)
}

func rowsEvent(kind byte, rows ...[]byte) []byte {
	b := []byte{7, 0, 0, 0, 0, 0, statementEnds, 0}
	if kind >= eventWriteRows {
		b = append(b, 2, 0)
	}
	b = append(b, 11, 0xff, 0x07)
	if kind == eventUpdateRows || kind == eventUpdateRows1 {
		b = append(b, 0xff, 0x07)
	}
	return append(b, bytes.Join(rows, nil)...)
}

// TestCheckRows: rows that are whole pass; what is cut short, goes on or lies about its length doesn't.
func TestCheckRows(t *testing.T) {
	t.Parallel()
	id, table, err := parseTableMap(aMap("shop", "orders"))
	if err != nil || id != 7 || table.schema != "shop" || table.table != "orders" || len(table.types) != 11 {
		t.Fatalf("a table map: %d %+v, %v", id, table, err)
	}
	for name, c := range map[string]struct {
		kind byte
		rows [][]byte
		ok   bool
	}{
		"one row":                    {eventWriteRows, [][]byte{aRow()}, true},
		"two rows":                   {eventWriteRows1, [][]byte{aRow(), aRow()}, true},
		"a row before and after":     {eventUpdateRows1, [][]byte{aRow(), aRow()}, true},
		"deleted rows":               {eventDeleteRows, [][]byte{aRow(), aRow(), aRow()}, true},
		"no row":                     {eventWriteRows, nil, false},
		"a row before and none then": {eventUpdateRows, [][]byte{aRow()}, false},
		"a byte more":                {eventWriteRows, [][]byte{aRow(), {0}}, false},
		"a text with no end":         {eventWriteRows1, [][]byte{append(aRow()[:6:6], 255, 'a')}, false},
	} {
		body := rowsEvent(c.kind, c.rows...)
		if err := table.checkRows(c.kind, body); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		for end := range len(body) {
			if cut := (len(body) - end) % len(aRow()); c.ok && cut != 0 && table.checkRows(c.kind, body[:end]) == nil {
				t.Errorf("%s, cut to %d bytes, passes", name, end)
			}
		}
	}
	for end := range len(aMap("s", "t")) {
		if _, _, err := parseTableMap(aMap("s", "t")[:end]); !errors.Is(err, errMangledLog) {
			t.Errorf("a table map cut to %d bytes: %v", end, err)
		}
	}
	unknown := aMap("s", "t")
	unknown[bytes.IndexByte(unknown, typeNewDecimal)] = 200
	if _, _, err := parseTableMap(unknown); !errors.Is(err, errMangledLog) {
		t.Errorf("a type that nobody knows: %v", err)
	}
}

// FuzzRows: whatever a source says of a table and of its rows, nothing is read beyond its end, and nothing goes on for ever.
func FuzzRows(f *testing.F) {
	for kind := byte(eventWriteRows1); kind <= eventDeleteRows; kind++ {
		f.Add(aMap("shop", "orders"), kind, rowsEvent(kind, aRow(), aRow()))
	}
	f.Fuzz(func(t *testing.T, shape []byte, kind byte, rows []byte) {
		_, table, err := parseTableMap(shape)
		if err != nil {
			return
		}
		if len(table.types) != len(table.meta) {
			t.Fatalf("%d columns, %d of which more is known", len(table.types), len(table.meta))
		}
		if isRows(kind) {
			_ = table.checkRows(kind, rows) // an error, or none
		}
	})
}

// TestMeaning is what statements of a log are for who follows the database shop.
func TestMeaning(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		schema, text string
		want         meaning
		table        string
	}{
		{"shop", "BEGIN", saysBegin, ""},
		{"", "COMMIT", saysCommit, ""},
		{"", "ROLLBACK", saysRollback, ""},
		{"", "ROLLBACK TO `a`", saysPartRollback, ""},
		{"", "SAVEPOINT `a`", saysNothing, ""},
		{"", "XA START X'61',X'',1", saysTwoPhase, ""},
		{"shop", "truncate emptied", saysTruncate, "emptied"},
		{"other", "TRUNCATE TABLE `shop`.`od``d`", saysTruncate, "od`d"},
		{"other", "/* why */ TRUNCATE TABLE  shop . emptied NOWAIT /* generated by server */", saysTruncate, "emptied"},
		{"other", "truncate Table shop.emptied Wait 5;", saysTruncate, "emptied"},
		{"other", "TRUNCATE emptied", saysNothing, ""},
		{"shop", "TRUNCATE other.emptied", saysNothing, ""},
		{"shop", "TRUNCATE emptied, more", saysChange, ""},
		{"shop", "ALTER TABLE t ADD n int", saysChange, ""},
		{"other", "ALTER TABLE `shop` . t ADD n int", saysChange, ""},
		{"other", "alter table t add n int", saysNothing, ""},
		{"other", "ALTER TABLE workshop.t ADD n int", saysNothing, ""},
		{"other", "-- of shop\n/*!40000 DROP TABLE shop.t */", saysChange, ""},
		{"", "DROP DATABASE `shop`", saysChange, ""},
		{"shop", "CREATE TEMPORARY TABLE x (n int)", saysNothing, ""},
		{"shop", "CREATE USER x", saysNothing, ""},
		{"shop", "GRANT SELECT ON shop.* TO x", saysNothing, ""},
		{"shop", "/*!40000 ALTER TABLE `t` DISABLE KEYS */", saysNothing, ""},
		{"shop", "INSERT INTO t VALUES (1)", saysRows, ""},
		{"other", "UPDATE shop.t SET n = 1", saysRows, ""},
		{"other", "UPDATE t SET n = 1", saysNothing, ""},
		{"shop", "ANALYZE TABLE t", saysNothing, ""},
		{"shop", "", saysNothing, ""},
	} {
		if got, table := (loggedStatement{c.schema, c.text}).meaning("shop"); got != c.want || table != c.table {
			t.Errorf("in %q, %q is %d of %q, want %d of %q", c.schema, c.text, got, table, c.want, c.table)
		}
	}
}

// sent is an event as a source sends it, in one packet.
func sent(kind byte, at uint32, body []byte) []byte {
	const sum = 4
	e := binary.LittleEndian.AppendUint32(nil, 1)
	e = binary.LittleEndian.AppendUint32(append(e, kind), 77)
	e = binary.LittleEndian.AppendUint32(e, uint32(eventHeader+len(body)+sum))
	e = append(binary.LittleEndian.AppendUint32(e, at), 0, 0)
	e = append(e, body...)
	e = binary.LittleEndian.AppendUint32(e, crc32.ChecksumIEEE(e))
	return packed(append([]byte{packetOK}, e...))
}

func packed(body []byte) []byte {
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(body)))[:3], 0), body...)
}

// said is a statement as an event's body.
func saidIn(schema, text string) []byte {
	b := append(make([]byte, 8), byte(len(schema)), 0, 0, 0, 0)
	return append(append(append(b, schema...), 0), text...)
}

// follows reads what a source sends to who follows the database shop.
func follows(t *testing.T, most int64, packets ...[]byte) (all []logged, err error) {
	t.Helper()
	var sent []io.Reader // not joined: some are large
	for _, p := range packets {
		sent = append(sent, bytes.NewReader(p))
	}
	l := &sourceLog{
		s: engine.Source{Received: &engine.Received{}, Most: most}, database: "shop", in: bufio.NewReader(io.MultiReader(sent...)),
		file: "log.000001", sums: true, tables: map[uint64]*tableMap{}, out: make(chan logged, mostWaiting), room: semaphore.NewWeighted(mostHeld),
	}
	for err == nil {
		var e logEvent
		var large bool
		if e, large, err = l.event(context.Background()); err == nil {
			err = l.take(context.Background(), e, large)
		}
	}
	close(l.out)
	for told := range l.out {
		all = append(all, told)
	}
	return all, err
}

// TestSourceLog: rows of what is followed come with the position after them; what lies, is too large or never ends is given up.
func TestSourceLog(t *testing.T) {
	t.Parallel()
	const most = 1 << 20
	begin, commit := sent(eventQuery, 50, saidIn("", "BEGIN")), sent(eventXid, 300, make([]byte, 8))
	shop, other := sent(eventTableMap, 100, aMap("shop", "orders")), sent(eventTableMap, 100, aMap("other", "orders"))
	rows := sent(eventWriteRows1, 200, rowsEvent(eventWriteRows1, aRow()))
	all, err := follows(t, most, begin, other, rows, commit, begin, shop, rows, commit)
	if len(all) != 3 || all[0].says != saysCommit || all[1].says != saysRows || all[1].table.table != "orders" || all[2].upTo != (binlogPosition{"log.000001", 300}) {
		t.Errorf("a source's log: %+v, %v", all, err)
	}
	next := sent(eventRotate, 400, append([]byte{4, 0, 0, 0, 0, 0, 0, 0}, "log.000002"...))
	if all, err = follows(t, most, commit, next); len(all) != 2 || all[1].upTo != (binlogPosition{"log.000002", 4}) || !all[0].upTo.before(all[1].upTo) {
		t.Errorf("the next log: %+v, %v", all, err)
	}
	checkpoint := sent(eventBinlogCheckpoint, 385, []byte{0})
	if all, err = follows(t, most, commit, next, checkpoint, begin, checkpoint, sent(eventHeartbeat, 200, nil)); len(all) != 3 || all[2].upTo != (binlogPosition{"log.000002", 385}) {
		t.Errorf("a log that begins without a transaction: %+v, %v", all, err)
	}
	damaged := bytes.Clone(commit)
	damaged[len(damaged)-6]++
	flagged, whole := rowsEvent(eventWriteRows1, aRow()), make([]byte, packetMost)
	for name, c := range map[string]struct {
		packets [][]byte
		why     string
	}{
		"rows of no table":              {[][]byte{rows}, errMangledLog.Error()},
		"rows after their table's end":  {[][]byte{shop, rows, rows}, errMangledLog.Error()},
		"rows cut short":                {[][]byte{shop, sent(eventWriteRows1, 200, flagged[:len(flagged)-3])}, errMangledLog.Error()},
		"an event longer than it is":    {[][]byte{packed(append([]byte{packetOK}, make([]byte, 40)...))}, errMangledLog.Error()},
		"an empty packet":               {[][]byte{packed(nil)}, errMangledLog.Error()},
		"a log with the name of a file": {[][]byte{sent(eventRotate, 0, append(make([]byte, 8), "../../etc/passwd"...))}, errMangledLog.Error()},
		"a log within a transaction":    {[][]byte{begin, next}, errMangledLog.Error()},
		"an event that was damaged":     {[][]byte{damaged}, "damaged"},
		"a log that goes back":          {[][]byte{commit, sent(eventXid, 200, make([]byte, 8))}, "larger than 4 GB"},
		"a transaction with no end":     {[][]byte{begin, sent(29, 100, make([]byte, most))}, engine.ErrEndless.Error()},
		"a row that is too large":       {[][]byte{{0xff, 0xff, 0xff, 0}, whole, {0xff, 0xff, 0xff, 1}, whole, {0xff, 0xff, 0xff, 2}}, "larger than 40 MB"},
		"what is compressed":            {[][]byte{sent(eventPayload, 100, make([]byte, 9))}, "compresses"},
		"a statement":                   {[][]byte{sent(eventQuery, 100, saidIn("shop", "DELETE FROM orders"))}, "as statements"},
		"a part rolled back":            {[][]byte{begin, shop, rows, sent(eventQuery, 250, saidIn("", "ROLLBACK TO `a`"))}, "rolled a part"},
		"two phases":                    {[][]byte{sent(eventQuery, 50, saidIn("", "XA START X'61'")), shop, rows}, "two-phase"},
		"a lost part":                   {[][]byte{sent(eventIncident, 100, []byte{1, 0})}, "lost a part"},
		"parts of values":               {[][]byte{sent(eventPartialRows, 100, make([]byte, 9))}, "parts of JSON"},
		"a table of ours":               {[][]byte{sent(eventQuery, 100, saidIn("shop", "TRUNCATE "+followTable))}, errMangledLog.Error()},
		"logs that are gone":            {[][]byte{packed(append([]byte{packetError, 0xd4, 4, '#', 'H', 'Y', '0', '0', '0'}, "Could not find first log"...))}, "doesn't have the part"},
	} {
		limit := int64(most)
		if strings.HasPrefix(name, "a row") {
			limit = 1 << 30
		}
		_, err := follows(t, limit, c.packets...)
		if given, ok := errors.AsType[*engine.SourceError](err); !ok || !strings.Contains(given.Reason, c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// TestKeysOfWriter: where the log has what foreign keys did to other rows, the target doesn't look at keys; where it hasn't, the target does what they do.
func TestKeysOfWriter(t *testing.T) {
	t.Parallel()
	_, table, err := parseTableMap(aMap("shop", "orders"))
	if err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[byte]byte{0: statementEnds, statementEnds | keysBySQL: statementEnds | keysBySQL | keysUnchecked, keysUnchecked: keysUnchecked | statementEnds} {
		w := &writer{open: true, database: "shop2"}
		rows := rowsEvent(eventDeleteRows, aRow())
		rows[flagsAt] = flags
		if err := w.rows(t.Context(), logged{table: &table, kind: eventDeleteRows, rows: rows}); err != nil {
			t.Fatal(err)
		}
		if got := w.under[len(w.under)-len(rows)+flagsAt]; got != want {
			t.Errorf("flags %#x became %#x, not %#x", flags, got, want)
		}
	}
}
