package probe

import (
	"bufio"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

	"steward/internal/monitor"
)

// mostPacked bounds the compressed form of mostBody, which is smaller, or a little
// more when it was packed in vain: members without any content can go on for ever.
const mostPacked = mostBody + mostBody/16

var gzips = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unpacked is a body without its content encoding; done gives back what it took.
func unpacked(body io.Reader, header string) (_ io.Reader, done func(), err error) {
	packed := &io.LimitedReader{R: body, N: mostPacked}
	switch contentEncoding(header) {
	case "":
		return body, func() {}, nil
	case "gzip":
		g := gzips.Get().(*gzip.Reader)
		if err := g.Reset(packed); err != nil {
			gzips.Put(g)
			return nothing(packed, err)
		}
		return unpacker{g, packed}, func() { gzips.Put(g) }, nil
	case "deflate":
		r, err := inflate(bufio.NewReader(packed))
		if err != nil {
			return nothing(packed, err)
		}
		return unpacker{r, packed}, func() {}, nil
	}
	return nil, nil, &failure{monitor.Protocol, "The answer is in a content encoding that wasn't asked for."}
}

// nothing is an empty body, which servers send unpacked, or else broken packing.
func nothing(packed *io.LimitedReader, err error) (io.Reader, func(), error) {
	if errors.Is(err, io.EOF) && packed.N == mostPacked {
		return packed, func() {}, nil
	}
	return nil, nil, badPacking(err)
}

// inflate reads zlib, as the standard has it, or the bare deflate that some send.
func inflate(r *bufio.Reader) (io.Reader, error) {
	head, err := r.Peek(2)
	if err != nil {
		return nil, err
	}
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(r)
	}
	return flate.NewReader(r), nil
}

// unpacker tells broken packing from a broken connection.
type unpacker struct {
	io.Reader
	packed *io.LimitedReader
}

func (u unpacker) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return n, err
	case u.packed.N <= 0:
		return n, errTooMuch
	}
	return n, badPacking(err)
}

func badPacking(err error) error {
	corrupt, isCorrupt := errors.AsType[flate.CorruptInputError](err)
	if isCorrupt && corrupt >= 0 || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum) || errors.Is(err, zlib.ErrDictionary) {
		return &failure{monitor.Protocol, "The answer's compression is broken."}
	}
	return err
}
