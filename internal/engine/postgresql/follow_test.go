package postgresql

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"steward/internal/engine"
)

// message writes one as pgoutput does: bytes, texts with their end, numbers by their size, rows.
func message(parts ...any) []byte {
	var b []byte
	for _, part := range parts {
		switch p := part.(type) {
		case rune:
			b = append(b, byte(p))
		case string:
			b = append(append(b, p...), 0)
		case uint16:
			b = binary.BigEndian.AppendUint16(b, p)
		case uint32:
			b = binary.BigEndian.AppendUint32(b, p)
		case uint64:
			b = binary.BigEndian.AppendUint64(b, p)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// values is a row: nil is NULL, "\x00" what stays as it is.
func values(all ...any) []byte {
	b := message(uint16(len(all)))
	for _, value := range all {
		switch text, ok := value.(string); {
		case !ok:
			b = append(b, 'n')
		case text == "\x00":
			b = append(b, 'u')
		default:
			b = append(message(b, 't', uint32(len(text))), text...)
		}
	}
	return b
}

// TestRowChange is what changes of rows become.
func TestRowChange(t *testing.T) {
	t.Parallel()
	keyed := followed{
		shape:  relationShape{schema: "s", name: `T"x`, columns: []shapeColumn{{"id", true}, {"name", false}, {"note", false}}},
		equals: map[string]string{"id": "OPERATOR(public.=)"},
	}
	whole := followed{shape: relationShape{schema: "s", name: "w", whole: true, columns: []shapeColumn{{"a", true}, {"b", true}}}}
	primary := whole
	primary.primary = []string{"b"}
	for name, c := range map[string]struct {
		table   followed
		message []byte
		want    string
	}{
		"insert": {keyed, message('I', uint32(1), 'N', values("1", nil, "")), `INSERT INTO "s"."T""x" ("id", "name", "note") OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3) [1 NULL ]`},
		"update": {keyed, message('U', uint32(1), 'N', values("1", "n", "\x00")), `UPDATE ONLY "s"."T""x" SET "id" = $1, "name" = $2 WHERE "id" OPERATOR(public.=) $3 [1 n 1]`},
		"update of the key": {
			keyed, message('U', uint32(1), 'K', values("1", nil, nil), 'N', values("2", "n", "\x00")),
			`UPDATE ONLY "s"."T""x" SET "id" = $1, "name" = $2 WHERE "id" OPERATOR(public.=) $3 [2 n 1]`,
		},
		"delete": {keyed, message('D', uint32(1), 'K', values("1", nil, nil)), `DELETE FROM ONLY "s"."T""x" WHERE "id" OPERATOR(public.=) $1 [1]`},
		"delete of a whole row": {
			whole, message('D', uint32(1), 'O', values("1", nil)),
			`DELETE FROM ONLY "s"."w" WHERE ctid = (SELECT ctid FROM ONLY "s"."w" WHERE "a" IS NOT NULL AND pg_catalog.format('%s', "a") = $1 AND "b" IS NULL AND true LIMIT 1) [1]`,
		},
		"update of a whole row with a key here": {
			primary, message('U', uint32(1), 'O', values("1", "2"), 'N', values("1", "3")),
			`UPDATE ONLY "s"."w" SET "a" = $1, "b" = $2 WHERE "b" OPERATOR(pg_catalog.=) $3 [1 3 2]`,
		},
		"insert without a value":   {keyed, message('I', uint32(1), 'N', values("1", "\x00", "")), "!"},
		"another number of values": {keyed, message('I', uint32(1), 'N', values("1")), "!"},
		"a key that is NULL":       {keyed, message('D', uint32(1), 'K', values(nil, nil, nil)), "!"},
		"nothing to set":           {keyed, message('U', uint32(1), 'N', values("\x00", "\x00", "\x00")), "!"},
		"no table's row":           {keyed, message('C', byte(0)), "!"},
	} {
		got := "!"
		if parsed, ok, err := parseChange(c.message); err == nil && ok {
			if st, err := c.table.statement(parsed); err == nil {
				var all []string
				for _, value := range st.values {
					if text := string(value); value == nil {
						all = append(all, "NULL")
					} else {
						all = append(all, text)
					}
				}
				got = st.sql + " [" + strings.Join(all, " ") + "]"
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestInsertedTogether: rows are inserted by statements of few lengths, which have no more values than one may.
func TestInsertedTogether(t *testing.T) {
	t.Parallel()
	two := followed{shape: relationShape{schema: "s", name: "t", columns: []shapeColumn{{"id", true}, {"word", false}}}}
	for rows, want := range map[int]int{1: 1, 3: 1, 4: 4, 15: 4, 16: 16, 63: 16, 64: 64, 1000: 64} {
		if got := two.together(rows); got != want {
			t.Errorf("of %d rows %d are inserted together, want %d", rows, got, want)
		}
	}
	wide := followed{shape: relationShape{columns: make([]shapeColumn, mostColumns)}}
	if got := wide.together(mostTogether); got != 16 {
		t.Errorf("of rows with as many columns as there may be, %d are inserted together", got)
	}
	row := func(id, word string) []field { return []field{{value: []byte(id)}, {value: []byte(word)}} }
	st := two.insert([][]field{row("1", "a"), row("2", "b"), {{value: []byte("3")}, {}}, row("4", "")})
	if st.rows != 4 || st.sql != `INSERT INTO "s"."t" ("id", "word") OVERRIDING SYSTEM VALUE VALUES ($1, $2), ($3, $4), ($5, $6), ($7, $8)` {
		t.Errorf("%d rows: %s", st.rows, st.sql)
	}
	if got := string(bytes.Join(st.values, []byte(" "))); got != "1 a 2 b 3  4 " || st.values[5] != nil || st.values[7] == nil {
		t.Errorf("values %q", st.values)
	}
}

// TestParseChange: what is cut short, too long in its own words or unknown is an error, and never more than that.
func TestParseChange(t *testing.T) {
	t.Parallel()
	relation := message('R', uint32(7), "public", "orders", 'd', uint16(2), '\x01', "id", uint32(23), uint32(0), '\x00', "note", uint32(25), uint32(0))
	c, ok, err := parseChange(relation)
	if err != nil || !ok || c.relation != 7 || c.shape.name != "orders" || len(c.shape.columns) != 2 || !c.shape.columns[0].key || c.shape.columns[1].key || c.shape.whole {
		t.Errorf("a relation: %+v %+v, %v", c, c.shape, err)
	}
	if c, _, err = parseChange(message('C', '\x00', uint64(1), uint64(0x16B374D848), uint64(0))); err != nil || c.end.String() != "16/B374D848" {
		t.Errorf("a commit: %+v, %v", c, err)
	}
	if c, _, err = parseChange(message('T', uint32(2), '\x01', uint32(7), uint32(8))); err != nil || len(c.relations) != 2 || c.relations[1] != 8 {
		t.Errorf("a truncate: %+v, %v", c, err)
	}
	if _, ok, err = parseChange(message('Y', uint32(7), "s", "t")); ok || err != nil {
		t.Errorf("a type: %t, %v", ok, err)
	}
	for _, whole := range [][]byte{relation, message('U', uint32(7), 'K', values("1", nil), 'N', values("2", "x")), message('D', uint32(7), 'O', values("1", "y")), message('T', uint32(2), '\x00', uint32(7), uint32(8)), message('B', uint64(1), uint64(2), uint32(3))[:9]} {
		for end := range len(whole) {
			if _, _, err := parseChange(whole[:end]); !errors.Is(err, errMangled) {
				t.Errorf("%q cut to %d bytes: %v", whole, end, err)
			}
		}
	}
	for _, lie := range [][]byte{
		message('I', uint32(7), 'N', uint16(1), 't', uint32(0xffffffff), "x"), message('I', uint32(7), 'N', uint16(65535)), message('T', uint32(0xffffffff), '\x00'),
		message('R', uint32(7), "s", "t", 'd', uint16(65535)), message('Q', uint32(7)), message('I', uint32(7), 'N', uint16(1), 'b', uint32(1), '1'),
	} {
		if _, _, err := parseChange(lie); !errors.Is(err, errMangled) {
			t.Errorf("%q: %v", lie, err)
		}
	}
}

// TestSizeGuard: a message that claims to be large is refused before it is made room for.
func TestSizeGuard(t *testing.T) {
	t.Parallel()
	small := bytes.Repeat(message('d', uint32(4+3), []byte("abc")), 3)
	passed, err := io.ReadAll(&sizeGuard{Reader: oneByte{bytes.NewReader(small)}})
	if err != nil || !bytes.Equal(passed, small) {
		t.Errorf("%q, %v", passed, err)
	}
	if _, err := io.ReadAll(&sizeGuard{Reader: bytes.NewReader(append(small, message('d', uint32(mostMessage+1))...))}); !errors.Is(err, errLarge) {
		t.Errorf("a large one: %v", err)
	}
}

// TestLargeMessagesTakeTurns: of several streams one at a time is sent a large message's length, and so makes room for it.
func TestLargeMessagesTakeTurns(t *testing.T) {
	t.Parallel()
	turn := engine.NewTurn()
	large := append(message('d', uint32(4+3), []byte("abc")), message('d', uint32(4+mostSmall), bytes.Repeat([]byte("x"), mostSmall))...)
	two := append(bytes.Clone(large), large...)
	first, second := &sizeGuard{Reader: bytes.NewReader(two), large: turn}, &sizeGuard{Reader: oneByte{bytes.NewReader(large)}, large: turn}
	upTo := func(g *sizeGuard, want int) (read []byte) {
		t.Helper()
		read, err := io.ReadAll(g)
		if !errors.Is(err, os.ErrDeadlineExceeded) || len(read) != want {
			t.Fatalf("%d bytes, %v; want %d, and to wait", len(read), err, want)
		}
		return read
	}
	const header = 8 + 4 // the small one, and what doesn't tell the large one's length yet
	one := upTo(first, len(large)+header)
	other := upTo(second, header)
	first.give()
	rest, err := io.ReadAll(second)
	if err != nil || !bytes.Equal(append(other, rest...), large) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	upTo(first, 0)
	second.give()
	second.give() // which is nobody's loss
	rest, err = io.ReadAll(first)
	if err != nil || !bytes.Equal(append(one, rest...), two) {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
}

// oneByte reads one byte at a time.
type oneByte struct{ io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.Reader.Read(p[:min(1, len(p))]) }

// TestHostileStreams: what a source does to who follows it ends with a reason, soon, and in bounded memory.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	large := func(to *pgproto3.Backend, conn net.Conn) {
		_, _ = conn.Write(message('d', uint32(1<<30), 'w'))
		endlessly(conn, bytes.Repeat([]byte("x"), 1<<16))
	}
	for name, c := range map[string]struct {
		serve  func(to *pgproto3.Backend, conn net.Conn)
		reason string
	}{
		"a gigabyte":   {large, "larger than"},
		"not a stream": {func(to *pgproto3.Backend, _ net.Conn) { to.Send(&pgproto3.CopyData{Data: []byte("k")}); _ = to.Flush() }, "can't be read"},
		"nothing":      {func(_ *pgproto3.Backend, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }, "sent nothing for too long"},
		"another answer": {func(to *pgproto3.Backend, _ net.Conn) {
			to.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			_ = to.Flush()
		}, "doesn't answer as a PostgreSQL"},
		"an endless transaction": {func(_ *pgproto3.Backend, conn net.Conn) {
			row := message('w', uint64(1), uint64(1), uint64(1), 'I', uint32(7), 'N', values(strings.Repeat("x", 1<<16)))
			endlessly(conn, append(message('d', uint32(4+len(row))), row...))
		}, "more than the database has room for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := lying(t, c.serve)
			f, err := startStream(t.Context(), s, "shop", "slot", 1)
			if err != nil {
				t.Fatal(err)
			}
			defer closeSoon(t.Context(), f.conn)
			ended := make(chan error, 1)
			go func() { ended <- f.run(t.Context()) }()
			for s := range f.out {
				f.taken(s)
			}
			if err := <-ended; err == nil || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// endlessly writes the same until nobody reads it.
func endlessly(conn net.Conn, what []byte) {
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	for {
		if _, err := conn.Write(what); err != nil {
			return
		}
	}
}

// lying is a source that takes a login and the beginning of a stream, and then does as it likes.
func lying(t *testing.T, serve func(to *pgproto3.Backend, conn net.Conn)) engine.Source {
	t.Helper()
	const second = time.Second
	return engine.Source{
		Username: "mover", Received: &engine.Received{}, Most: 8 << 20, Silence: second,
		Dial: func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				b := pgproto3.NewBackend(theirs, theirs)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = b.Flush()
				if _, err := b.Receive(); err != nil {
					return
				}
				b.Send(&pgproto3.CopyBothResponse{})
				_ = b.Flush()
				go func() { _, _ = io.Copy(io.Discard, theirs) }()
				serve(b, theirs)
			}()
			return ours, nil
		},
	}
}
