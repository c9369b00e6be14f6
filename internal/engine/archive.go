package engine

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// ErrDamaged is returned for a backup that ends early or was changed.
var ErrDamaged = errors.New("the backup is damaged")

// A trailer ends every archive: a mark, the length of what is before it, and
// a checksum of that. Neither tar nor MariaDB's xbstream could tell otherwise
// that whole files are missing at the end, or that a page was changed. Tools
// that read tar by hand take no notice of it; mbstream wants the last
// trailerSize bytes cut off.
const (
	trailerMark = "steward1"
	trailerSize = len(trailerMark) + 8 + 4
)

// castagnoli is the checksum that processors compute, faster than memory.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type tally struct {
	length uint64
	sum    uint32
}

func (t *tally) add(p []byte) {
	t.length += uint64(len(p))
	t.sum = crc32.Update(t.sum, castagnoli, p)
}

func (t *tally) trailer() []byte {
	b := binary.BigEndian.AppendUint64([]byte(trailerMark), t.length)
	return binary.BigEndian.AppendUint32(b, t.sum)
}

// ArchiveWriter is what drivers write a backup through.
type ArchiveWriter struct {
	w     io.Writer
	tally tally
}

// NewArchiveWriter writes to w.
func NewArchiveWriter(w io.Writer) *ArchiveWriter { return &ArchiveWriter{w: w} }

// Write implements io.Writer.
func (a *ArchiveWriter) Write(p []byte) (int, error) {
	n, err := a.w.Write(p)
	a.tally.add(p[:n])
	return n, err
}

// End makes the archive a whole one. Without it nobody takes it for one.
func (a *ArchiveWriter) End() error {
	if _, err := a.w.Write(a.tally.trailer()); err != nil {
		return fmt.Errorf("end the backup: %w", err)
	}
	return nil
}

// ArchiveReader reads what an ArchiveWriter wrote, and ends with io.EOF only
// when that is whole. It holds the trailer back.
type ArchiveReader struct {
	r     *bufio.Reader
	tally tally
	err   error
}

// NewArchiveReader reads from r to its end.
func NewArchiveReader(r io.Reader) *ArchiveReader {
	return &ArchiveReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// Read implements io.Reader.
func (a *ArchiveReader) Read(p []byte) (int, error) {
	if a.err != nil {
		return 0, a.err
	}
	n, err := a.read(p)
	a.err = err
	return n, err
}

func (a *ArchiveReader) read(p []byte) (int, error) {
	held, err := a.r.Peek(trailerSize + 1)
	if len(held) <= trailerSize {
		if !errors.Is(err, io.EOF) {
			return 0, err
		}
		return 0, a.check(held)
	}
	// What is buffered already needs no reading and can't fail.
	n, err := a.r.Read(p[:min(len(p), a.r.Buffered()-trailerSize)])
	a.tally.add(p[:n])
	return n, err
}

func (a *ArchiveReader) check(trailer []byte) error {
	switch {
	case !bytes.HasPrefix(trailer, []byte(trailerMark)):
		return fmt.Errorf("%w: it ends early", ErrDamaged)
	case !bytes.Equal(trailer, a.tally.trailer()):
		return fmt.Errorf("%w: its checksum differs", ErrDamaged)
	}
	return io.EOF
}

// Finish reads on to the end, and is nil when the archive is whole. A program
// that reads an archive stops where it thinks that it ends.
func (a *ArchiveReader) Finish() error {
	_, err := io.Copy(io.Discard, a)
	return err
}

// Err is what reading has failed with so far. A program that is fed the archive
// only sees that it ends.
func (a *ArchiveReader) Err() error {
	if errors.Is(a.err, io.EOF) {
		return nil
	}
	return a.err
}
