package archive

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// TestPackerOrder: what comes out is what went in, at every size around a frame's.
func TestPackerOrder(t *testing.T) {
	for _, size := range []int{0, 1, frameBytes - 1, frameBytes, frameBytes + 1, 7*frameBytes + 5} {
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i >> 16)
		}
		var out bytes.Buffer
		p := newPacker(&out)
		if _, err := io.CopyBuffer(struct{ io.Writer }{p}, iotest.HalfReader(bytes.NewReader(data)), make([]byte, 100_000)); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if out.Len() == 0 {
			t.Errorf("%d bytes: not even a frame; zstd calls that damaged", size)
		}
		r, err := zstd.NewReader(&out)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes of %d came back: %v", len(got), size, err)
		}
	}
}

// slow is a place to write to that takes its time and then fails.
type slow struct {
	after int
	err   error
}

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	if s.after--; s.after < 0 {
		return 0, s.err
	}
	return len(p), nil
}

// TestPackerFails: who writes is told, and everything ends.
func TestPackerFails(t *testing.T) {
	for after := range 5 {
		p := newPacker(&slow{after, io.ErrClosedPipe})
		var err error
		for range 1000 {
			if _, err = p.Write(make([]byte, frameBytes/2)); err != nil {
				break
			}
		}
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d frames: %v", after, err)
		}
		if err := p.Close(); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("after %d frames, at the end: %v", after, err)
		}
	}
}
