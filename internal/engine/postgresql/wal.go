package postgresql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// Parts of the WAL's format that all versions from 13 to 18 share
// (access/xlog_internal.h, access/xlogrecord.h).
const (
	walPage        = 8192
	pageHeader     = 24
	longPageHeader = 40
	recordHeader   = 24
	recordAlign    = 8
	recordMost     = 1020 << 20

	pageContinues = 1 // flag: the page begins with the rest of a record
	pageLong      = 2 // flag: the header is the long one
	pageOverwrote = 8 // flag: the record before it was given up after a crash

	managerXLOG  = 0
	recordSwitch = 0x40 // of managerXLOG: the rest of the segment is unused
)

var (
	segmentName = regexp.MustCompile(`^[0-9A-F]{24}$`)
	historyName = regexp.MustCompile(`^[0-9A-F]{8}\.history$`)
)

// errWALEnds is where valid WAL ends.
var errWALEnds = errors.New("the WAL ends here")

// parseSegment is the number of a segment from its name without the timeline.
func parseSegment(name string, size uint64) (uint64, error) {
	if len(name) != 16 || size == 0 || size > 1<<32 {
		return 0, fmt.Errorf("no segment of WAL: %q of %d bytes", name, size)
	}
	high, err := strconv.ParseUint(name[:8], 16, 32)
	if err != nil {
		return 0, fmt.Errorf("segment of WAL: %w", err)
	}
	low, err := strconv.ParseUint(name[8:], 16, 32)
	if err != nil {
		return 0, fmt.Errorf("segment of WAL: %w", err)
	}
	return high*(1<<32/size) + low, nil
}

// walFolder is the pg_wal of a stopped server.
type walFolder struct {
	dir         string
	segmentSize uint64
	// names has, by number, each segment's file of the latest timeline: that one
	// holds all of its forerunner that still counts.
	names     map[uint64]string
	oldest    uint64
	histories []string
}

func openWAL(dir string) (*walFolder, error) {
	entries, err := os.ReadDir(dir) // in order of names, thus of timelines
	if err != nil {
		return nil, fmt.Errorf("list WAL: %w", err)
	}
	w := &walFolder{dir: dir, names: map[uint64]string{}, oldest: ^uint64(0)}
	for _, e := range entries {
		switch {
		case historyName.MatchString(e.Name()):
			w.histories = append(w.histories, e.Name())
		case segmentName.MatchString(e.Name()):
			if err := w.add(e); err != nil {
				return nil, err
			}
		}
	}
	if w.segmentSize == 0 {
		return nil, fmt.Errorf("no WAL segment in %s", dir)
	}
	return w, nil
}

func (w *walFolder) add(e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return fmt.Errorf("look at WAL segment: %w", err)
	}
	if w.segmentSize == 0 {
		w.segmentSize = uint64(info.Size())
	}
	number, err := parseSegment(e.Name()[8:], w.segmentSize)
	if err != nil {
		return err
	}
	w.names[number] = e.Name()
	w.oldest = min(w.oldest, number)
	return nil
}

// segments are the numbers of those that hold WAL from one place up to another.
func (w *walFolder) segments(from, to lsn) []uint64 {
	var numbers []uint64
	for n := uint64(from) / w.segmentSize; n*w.segmentSize < uint64(to); n++ {
		numbers = append(numbers, n)
	}
	return numbers
}

// walReader reads records one after the other, as recovery would.
type walReader struct {
	folder *walFolder
	// at is the end of the last record, and previous its start.
	at, previous lsn
	number       uint64
	open         *os.File
	// page holds the one at address, when it is loaded.
	page    [walPage]byte
	address lsn
	loaded  bool
	// magic, in every page, is the version's.
	magic uint16
}

// newWALReader begins where a record ends.
func newWALReader(folder *walFolder, at lsn) *walReader { return &walReader{folder: folder, at: at} }

func (r *walReader) close() {
	if r.open != nil {
		r.open.Close()
		r.open = nil
	}
}

// next reads a record and returns where it ends. errWALEnds reports that there is
// none that is whole: what follows was never written, or is of an earlier use of the file.
func (r *walReader) next() (lsn, error) {
	for {
		end, err := r.record(r.at)
		if overwritten, ok := errors.AsType[*overwrittenError](err); ok {
			r.at = overwritten.page
			continue
		}
		if err != nil {
			return r.at, err
		}
		r.at = end
		return end, nil
	}
}

// overwrittenError says that a record was never finished: after a crash its server
// went on at the start of a page.
type overwrittenError struct{ page lsn }

func (e *overwrittenError) Error() string {
	return fmt.Sprintf("the record before %v was given up", e.page)
}

func (r *walReader) record(at lsn) (lsn, error) {
	cursor, err := r.begin(at)
	if err != nil {
		return 0, err
	}
	start := cursor
	// Records are aligned, so that the length is always in one page.
	length := int(binary.LittleEndian.Uint32(r.page[cursor%walPage:]))
	if length < recordHeader || length > recordMost {
		return 0, errWALEnds
	}
	content := make([]byte, 0, min(length, 1<<20))
	for len(content) < length {
		if cursor%walPage == 0 {
			if cursor, err = r.proceed(cursor, length-len(content)); err != nil {
				return 0, err
			}
		}
		n := min(length-len(content), int(walPage-cursor%walPage))
		content = append(content, r.page[cursor%walPage:][:n]...)
		cursor += lsn(n)
	}
	if !r.valid(content, start) {
		return 0, errWALEnds
	}
	r.previous = start
	return r.ending(content, cursor), nil
}

// begin is where the record after that place stands: page headers lie between.
func (r *walReader) begin(at lsn) (lsn, error) {
	if at%recordAlign != 0 {
		return 0, errWALEnds
	}
	if err := r.load(at / walPage * walPage); err != nil {
		return 0, err
	}
	if at%walPage != 0 {
		return at, nil
	}
	if r.flags()&pageContinues != 0 {
		return 0, errWALEnds
	}
	return at + r.headerLength(), nil
}

// proceed goes to the page where a record's rest must stand.
func (r *walReader) proceed(page lsn, rest int) (lsn, error) {
	if err := r.load(page); err != nil {
		return 0, err
	}
	if r.flags()&pageOverwrote != 0 {
		return 0, &overwrittenError{page}
	}
	if r.flags()&pageContinues == 0 || int(binary.LittleEndian.Uint32(r.page[16:])) != rest {
		return 0, errWALEnds
	}
	return page + r.headerLength(), nil
}

func (r *walReader) flags() uint16 { return binary.LittleEndian.Uint16(r.page[2:]) }

func (r *walReader) headerLength() lsn {
	if r.flags()&pageLong != 0 {
		return longPageHeader
	}
	return pageHeader
}

// load reads a page unless it is there already, and checks that it is one of
// this address: files are used again under new names, and keep their old content.
func (r *walReader) load(page lsn) error {
	if r.loaded && r.address == page {
		return nil
	}
	r.loaded = false
	number := uint64(page) / r.folder.segmentSize
	if err := r.enter(number); err != nil {
		return err
	}
	_, err := r.open.ReadAt(r.page[:], int64(uint64(page)%r.folder.segmentSize))
	if errors.Is(err, io.EOF) {
		return errWALEnds
	}
	if err != nil {
		return fmt.Errorf("read WAL: %w", err)
	}
	if !r.hasHeader(page) {
		return errWALEnds
	}
	r.loaded, r.address = true, page
	return nil
}

// hasHeader checks the header of the page at hand.
func (r *walReader) hasHeader(page lsn) bool {
	magic := binary.LittleEndian.Uint16(r.page[:])
	if r.magic == 0 {
		r.magic = magic
	}
	first := uint64(page)%r.folder.segmentSize == 0
	return magic != 0 && magic == r.magic && first == (r.flags()&pageLong != 0) &&
		lsn(binary.LittleEndian.Uint64(r.page[8:])) == page
}

func (r *walReader) enter(number uint64) error {
	if r.open != nil && r.number == number {
		return nil
	}
	r.close()
	name, ok := r.folder.names[number]
	if !ok {
		return errWALEnds
	}
	f, err := os.Open(filepath.Join(r.folder.dir, name))
	if err != nil {
		return fmt.Errorf("open WAL segment: %w", err)
	}
	r.open, r.number = f, number
	return nil
}

// valid checks the checksum and the link to the record before.
func (r *walReader) valid(content []byte, start lsn) bool {
	before := lsn(binary.LittleEndian.Uint64(content[8:]))
	if before >= start || r.previous != 0 && before != r.previous {
		return false
	}
	sum := crc32.Checksum(content[recordHeader:], castagnoli)
	return crc32.Update(sum, castagnoli, content[:20]) == binary.LittleEndian.Uint32(content[20:])
}

// ending is where the next record begins, or the page it begins on.
func (r *walReader) ending(content []byte, cursor lsn) lsn {
	if content[17] == managerXLOG && content[16]&0xf0 == recordSwitch {
		size := lsn(r.folder.segmentSize)
		return (cursor + size - 1) / size * size
	}
	return (cursor + recordAlign - 1) / recordAlign * recordAlign
}

// extent reads on from a place where a record begins. known is the end of the
// last record of which all bytes are before received, end that of the last of all.
func (w *walFolder) extent(from, received lsn) (known, end lsn, err error) {
	r := newWALReader(w, from)
	defer r.close()
	known = from
	for {
		end, err = r.next()
		if errors.Is(err, errWALEnds) {
			return known, end, nil
		}
		if err != nil {
			return 0, 0, err
		}
		if end <= received {
			known = end
		}
	}
}

// copied are the segments to be copied, the last one first: whoever finds one
// then finds all that follow.
func (w *walFolder) copied(from, to lsn) []string {
	var names []string
	for _, n := range w.segments(from, to) {
		names = append(names, w.names[n])
	}
	slices.Reverse(names)
	return names
}
