package mysql

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"steward/internal/engine"
)

// logWriter makes a binary log of the kind that MariaDB writes.
type logWriter struct{ bytes.Buffer }

func (w *logWriter) event(kind byte, second uint32, body ...byte) {
	var head [eventHeader]byte
	binary.LittleEndian.PutUint32(head[:], second)
	head[4] = kind
	binary.LittleEndian.PutUint32(head[9:], uint32(eventHeader+len(body)))
	w.Write(head[:])
	w.Write(body)
}

// log of transactions from a number on, one a second.
func sampleLog(first uint64, seconds ...uint32) []byte {
	var w logWriter
	w.WriteString(binlogMagic)
	w.event(eventFormat, seconds[0], make([]byte, 30)...)
	w.event(eventGTIDList, seconds[0], make([]byte, 8)...)
	for i, second := range seconds {
		w.event(eventMariaDBGTID, second, append(binary.LittleEndian.AppendUint64(nil, first+uint64(i)), make([]byte, 9)...)...)
		w.event(30, second, byte('a'+i)) // rows
		w.event(16, second, byte('A'+i)) // the commit
		w.event(eventBinlogCheckpoint, second, 0)
	}
	w.event(eventRotate, seconds[len(seconds)-1], make([]byte, 20)...)
	return w.Bytes()
}

// content is what is in the transactions of a log.
func content(t *testing.T, log []byte) string {
	t.Helper()
	r, err := newLogReader(bytes.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for {
		e, err := r.next()
		if err != nil {
			return b.String()
		}
		switch e.kind() {
		case 30, 16:
			b.Write(e.body())
		case eventRotate, eventBinlogCheckpoint, eventGTIDList:
			t.Errorf("event %d is kept", e.kind())
		}
	}
}

func TestFilter(t *testing.T) {
	log := sampleLog(11, 100, 101, 101, 103)
	for _, c := range []struct {
		name      string
		at, until uint64
		target    int64
		want      string
		reached   uint64
		beyond    bool
		gap       bool
	}{
		{"all", 10, 14, 1000, "aAbBcCdD", 14, false, false},
		{"but for what was done", 12, 14, 1000, "cCdD", 14, false, false},
		{"up to where another primary took over", 10, 12, 1000, "aAbB", 12, false, false},
		{"more than its name says", 10, 13, 1000, "aAbBcC", 13, false, true},
		{"before a second that isn't over", 10, 14, 101, "aA", 11, true, false},
		{"before the next", 10, 14, 102, "aAbBcC", 13, true, false},
		{"before an idle one", 10, 14, 103, "aAbBcC", 13, true, false},
		{"before everything", 10, 14, 100, "", 10, true, false},
		{"one is missing", 9, 14, 1000, "", 9, false, true},
		{"it ends early", 10, 20, 1000, "aAbBcCdD", 14, false, true},
	} {
		x := &filter{read: mariaDB{}.readTransaction, at: new(numbered(c.at)), target: time.Unix(c.target, 0)}
		var out bytes.Buffer
		p := segment{0, c.at, max(c.until, 14)}
		if c.gap {
			p.to = c.until
		}
		_, err := x.copy(p, c.until, bytes.NewReader(log), &out)
		if errors.Is(err, engine.ErrGap) != c.gap || err != nil && !c.gap {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := content(t, out.Bytes()); got != c.want || x.at.transactions() != c.reached || x.beyond != c.beyond {
			t.Errorf("%s: %q up to %d, %t", c.name, got, x.at.transactions(), x.beyond)
		}
	}
}

func TestBrokenLogs(t *testing.T) {
	log := sampleLog(1, 100, 101)
	for end := range len(log) {
		x := &filter{read: mariaDB{}.readTransaction, at: new(numbered(0)), target: time.Unix(1000, 0)}
		var out bytes.Buffer
		if _, err := x.copy(segment{0, 0, 2}, 2, bytes.NewReader(log[:end]), &out); err == nil && x.at.transactions() != 2 {
			t.Fatalf("cut at %d: up to %d", end, x.at.transactions())
		}
	}
	var w logWriter
	w.WriteString(binlogMagic)
	w.event(eventAnonymous, 100, make([]byte, 60)...)
	x := &filter{read: mySQL{}.readTransaction, at: gtidSet{}, target: time.Unix(1000, 0)}
	if _, err := x.copy(segment{0, 0, 1}, 1, &w, &bytes.Buffer{}); err == nil {
		t.Error("a transaction without an identity is taken")
	}
}

func TestMySQLTransaction(t *testing.T) {
	body := append([]byte{1}, bytes.Repeat([]byte{0xab}, 16)...)
	body = binary.LittleEndian.AppendUint64(body, 42)
	body = append(append(body, 2), make([]byte, 16)...)
	want := time.Date(2026, 1, 31, 18, 4, 5, 678901000, time.UTC)
	seven := func(micros uint64) []byte { return binary.LittleEndian.AppendUint64(nil, micros)[:7] }
	there := append(bytes.Clone(body), seven(uint64(want.UnixMicro()))...)
	elsewhere := append(append(bytes.Clone(body), seven(uint64(want.Add(time.Minute).UnixMicro())|1<<55)...), seven(uint64(want.UnixMicro()))...)
	for name, body := range map[string][]byte{"on its server": there, "on a replica": elsewhere} {
		var w logWriter
		w.event(eventGTID, 1, body...)
		got, err := (mySQL{}).readTransaction(w.Bytes())
		if err != nil || got.source != "abababab-abab-abab-abab-abababababab" || got.number != 42 || !got.ended.Equal(want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		w.Reset()
		w.event(eventGTID, 1, body[:40]...)
		if _, err := (mySQL{}).readTransaction(w.Bytes()); err == nil {
			t.Errorf("%s: one that ends early is taken", name)
		}
	}
}

func FuzzFilter(f *testing.F) {
	f.Add(sampleLog(1, 100, 101))
	f.Fuzz(func(_ *testing.T, log []byte) {
		for _, x := range []*filter{
			{read: mariaDB{}.readTransaction, at: new(numbered(0)), target: time.Unix(1000, 0)},
			{read: mySQL{}.readTransaction, at: gtidSet{}, target: time.Unix(1000, 0)},
		} {
			var out bytes.Buffer
			_, _ = x.copy(segment{0, 0, 2}, 2, bytes.NewReader(log), &out)
		}
	})
}
