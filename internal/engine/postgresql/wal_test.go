package postgresql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
)

// testSegment is small, so that records span segments.
const testSegment = 4 * walPage

// walWriter writes WAL as a server does.
type walWriter struct {
	content  []byte
	previous lsn
	ends     []lsn
}

// put appends bytes, with headers where pages begin. rest is what a record has
// left at the time.
func (w *walWriter) put(data []byte, continues bool, flags uint16) {
	for len(data) > 0 || continues {
		if len(w.content)%walPage == 0 {
			w.header(continues, len(data), flags)
		}
		n := min(len(data), walPage-len(w.content)%walPage)
		w.content = append(w.content, data[:n]...)
		data, continues = data[n:], len(data) > n
	}
}

func (w *walWriter) header(continues bool, rest int, flags uint16) {
	at, length := len(w.content), pageHeader
	if at%testSegment == 0 {
		flags, length = flags|pageLong, longPageHeader
	}
	h := make([]byte, length)
	if continues {
		flags |= pageContinues
		binary.LittleEndian.PutUint32(h[16:], uint32(rest))
	}
	binary.LittleEndian.PutUint16(h, 0xD110)
	binary.LittleEndian.PutUint16(h[2:], flags)
	binary.LittleEndian.PutUint64(h[8:], uint64(at))
	w.content = append(w.content, h...)
}

// record appends one with so many bytes after its header.
func (w *walWriter) record(size int, info, manager byte, flags uint16) {
	if len(w.content)%walPage == 0 {
		w.header(false, 0, flags)
	}
	start := lsn(len(w.content))
	r := make([]byte, recordHeader+size)
	binary.LittleEndian.PutUint32(r, uint32(len(r)))
	binary.LittleEndian.PutUint64(r[8:], uint64(w.previous))
	r[16], r[17] = info, manager
	for i := range size {
		r[recordHeader+i] = byte(i)
	}
	sum := crc32.Update(crc32.Checksum(r[recordHeader:], castagnoli), castagnoli, r[:20])
	binary.LittleEndian.PutUint32(r[20:], sum)
	first := min(len(r), walPage-len(w.content)%walPage)
	w.content = append(w.content, r[:first]...)
	if first < len(r) {
		w.put(r[first:], true, 0)
	}
	for len(w.content)%recordAlign != 0 {
		w.content = append(w.content, 0)
	}
	w.previous = start
	w.ends = append(w.ends, lsn(len(w.content)))
}

// folder writes the segments, the last one filled up, and opens them.
func (w *walWriter) folder(t testing.TB, spoil func(content []byte)) *walFolder {
	t.Helper()
	dir := t.TempDir()
	content := append([]byte{}, w.content...)
	content = append(content, make([]byte, (testSegment-len(content)%testSegment)%testSegment)...)
	if spoil != nil {
		spoil(content)
	}
	for i := 0; i*testSegment < len(content); i++ {
		path := filepath.Join(dir, fmt.Sprintf("00000001%08X%08X", 0, i))
		if err := os.WriteFile(path, content[i*testSegment:][:testSegment], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder, err := openWAL(dir)
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// sample has records that end in the middle of a page, at its end, and segments later.
func sample() *walWriter {
	w := &walWriter{}
	w.record(104, 0, 10, 0)
	w.record(walPage-longPageHeader-2*recordHeader-104, 0, 10, 0) // up to the end of its page
	for _, size := range []int{0, 1, 7, 8, 9000, 3, 50_000, 17, 100_000, 40} {
		w.record(size, 0, 10, 0)
	}
	return w
}

func TestExtent(t *testing.T) {
	w := sample()
	last := w.ends[len(w.ends)-1]
	folder := w.folder(t, nil)
	for i, from := range w.ends {
		known, end, err := folder.extent(from, w.ends[max(i, 4)]+1)
		if err != nil || end != last || known != w.ends[max(i, 4)] {
			t.Errorf("from %v: known %v, end %v, %v; want %v, %v", from, known, end, err, w.ends[max(i, 4)], last)
		}
	}
}

// Whatever is broken, what is before it counts, and nothing after.
func TestExtentEndsAtTheFirstBrokenByte(t *testing.T) {
	w := sample()
	for i := 1; i < len(w.ends); i++ {
		for _, at := range []lsn{w.ends[i-1], w.ends[i] - 1, (w.ends[i-1] + w.ends[i]) / 2} {
			if at%walPage >= 20 && at%walPage < longPageHeader || at >= w.ends[i] {
				continue // padding and what isn't looked at
			}
			folder := w.folder(t, func(content []byte) { content[at] ^= 0xff })
			_, end, err := folder.extent(w.ends[0], 0)
			padding := at >= w.ends[i]-recordAlign && end > w.ends[i-1]
			if err != nil || end != w.ends[i-1] && !padding {
				t.Errorf("byte %v of the record from %v is broken: the end is %v, %v", at, w.ends[i-1], end, err)
			}
		}
	}
}

func TestExtentOfASwitch(t *testing.T) {
	w := &walWriter{}
	w.record(100, 0, 10, 0)
	w.record(0, recordSwitch, managerXLOG, 0)
	from := w.ends[0]
	w.content = append(w.content, make([]byte, testSegment-len(w.content))...)
	w.record(60, 0, 10, 0)
	_, end, err := w.folder(t, nil).extent(from, 0)
	if want := w.ends[len(w.ends)-1]; err != nil || end != want || end <= testSegment {
		t.Errorf("the end is %v, %v; want %v", end, err, want)
	}
}

// A server that crashed inside a record goes on at the next page.
func TestExtentOfAnOverwrittenRecord(t *testing.T) {
	w := &walWriter{}
	w.record(100, 0, 10, 0)
	kept := w.previous
	w.record(2*walPage, 0, 10, 0)
	w.content, w.previous = w.content[:walPage], kept
	w.record(60, 0, 10, pageOverwrote)
	_, end, err := w.folder(t, nil).extent(w.ends[0], 0)
	if want := w.ends[len(w.ends)-1]; err != nil || end != want {
		t.Errorf("the end is %v, %v; want %v", end, err, want)
	}
}

// A file used again has valid records of another address.
func TestExtentStopsAtAReusedSegment(t *testing.T) {
	w := sample()
	folder := w.folder(t, func(content []byte) {
		copy(content[2*testSegment:3*testSegment], content[testSegment:2*testSegment])
	})
	_, end, err := folder.extent(w.ends[0], 0)
	if err != nil || end > 2*testSegment {
		t.Errorf("the end is %v, %v", end, err)
	}
}

func TestCopiedSegments(t *testing.T) {
	w := sample()
	folder := w.folder(t, nil)
	newer := "00000002" + fmt.Sprintf("%016X", 1)
	if err := os.WriteFile(filepath.Join(folder.dir, newer), make([]byte, testSegment), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := openWAL(folder.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from, to lsn
		want     string
	}{
		{testSegment - 1, testSegment, "[000000010000000000000000]"},
		{testSegment - 1, testSegment + 1, "[000000020000000000000001 000000010000000000000000]"},
		{testSegment, 3 * testSegment, "[000000010000000000000002 000000020000000000000001]"},
	} {
		if got := fmt.Sprint(folder.copied(c.from, c.to)); got != c.want {
			t.Errorf("from %v to %v: %s, want %s", c.from, c.to, got, c.want)
		}
	}
}

func TestParseSegment(t *testing.T) {
	if got, err := parseSegment("000000020000000F", 16<<20); err != nil || got != 2*256+15 {
		t.Errorf("segment is %d, %v", got, err)
	}
	for _, name := range []string{"", "0000000000000000x", "000000000000000x", "x000000000000000"} {
		if got, err := parseSegment(name, 16<<20); err == nil {
			t.Errorf("%q is %d", name, got)
		}
	}
	if _, err := parseSegment("0000000000000000", 0); err == nil {
		t.Error("segments of no size are taken")
	}
}

// FuzzWAL demands an end for any content, and never one beyond it.
func FuzzWAL(f *testing.F) {
	w := sample()
	f.Add(w.content, uint64(w.ends[0]))
	f.Add([]byte{}, uint64(0))
	f.Add(make([]byte, 3*walPage), uint64(8))
	f.Fuzz(func(t *testing.T, content []byte, from uint64) {
		if len(content) == 0 || len(content) > 64*walPage {
			return
		}
		from %= uint64(len(content))
		folder := (&walWriter{content: content}).folder(t, nil)
		known, end, err := folder.extent(lsn(from), ^lsn(0))
		if err != nil {
			t.Fatal(err)
		}
		size := uint64(len(content)+testSegment-1) / testSegment * testSegment
		if uint64(end) < from || uint64(end) > size || known != end {
			t.Errorf("from %v: known %v, end %v of %d", lsn(from), known, end, size)
		}
	})
}

func TestReaderSaysWhatItCantRead(t *testing.T) {
	w := sample()
	folder := w.folder(t, nil)
	if err := os.Remove(filepath.Join(folder.dir, folder.names[1])); err != nil {
		t.Fatal(err)
	}
	if _, _, err := folder.extent(w.ends[0], 0); err == nil || errors.Is(err, errWALEnds) {
		t.Errorf("a file that went away passes for the end: %v", err)
	}
}
