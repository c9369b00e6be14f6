package archive

import (
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

const (
	// frameBytes is how much data is compressed at a time, to a zstd frame of its
	// own. More compresses hardly better and takes more memory.
	frameBytes = 512 << 10
	// packers compress at the same time: as many of a backup's frames, and as many
	// of all backups'.
	packers = 2
	// packerNice is the packers' priority: databases that have work to do come first.
	packerNice = 10
)

// packer compresses what is written to it, in parallel and at a low priority, and
// passes it on in order. Frames one after another are a zstd stream to any tool.
type packer struct {
	w       io.Writer
	current *frame
	// free has every frame there is: who writes waits for one, so that memory is
	// bounded however slow w is.
	free  chan *frame
	work  chan *frame
	order chan *frame
	// failed is closed when w has failed, with err.
	failed chan struct{}
	err    error
	ended  sync.WaitGroup
	frames int
}

// frame is a part of the data on its way.
type frame struct {
	plain, packed []byte
	done          chan struct{}
}

func newPacker(w io.Writer) *packer {
	const frames = packers + 2 // one is being filled and one is being written
	p := &packer{
		w: w, free: make(chan *frame, frames), work: make(chan *frame, frames), order: make(chan *frame, frames),
		failed: make(chan struct{}),
	}
	for range frames {
		p.free <- &frame{done: make(chan struct{}, 1)}
	}
	for range packers {
		p.ended.Go(p.pack)
	}
	p.ended.Go(p.passOn)
	return p
}

// Write implements io.Writer.
func (p *packer) Write(b []byte) (int, error) {
	n := 0
	for len(b) > 0 {
		if err := p.take(); err != nil {
			return n, err
		}
		f := p.current
		taken := min(len(b), frameBytes-len(f.plain))
		f.plain = append(f.plain, b[:taken]...)
		n, b = n+taken, b[taken:]
		if len(f.plain) == frameBytes {
			p.send()
		}
	}
	return n, nil
}

// take sees to it that there is a frame to fill.
func (p *packer) take() error {
	if p.current == nil {
		p.current = <-p.free
		if p.current.plain == nil {
			p.current.plain = make([]byte, 0, frameBytes)
		}
		p.current.plain = p.current.plain[:0]
	}
	select {
	case <-p.failed:
		return p.err
	default:
		return nil
	}
}

func (p *packer) send() {
	p.frames++
	p.work <- p.current
	p.order <- p.current
	p.current = nil
}

// Close passes the rest on, and ends the packer in any case.
func (p *packer) Close() error {
	if p.frames == 0 && p.current == nil { // nothing was written: a frame of nothing
		p.current = <-p.free
	}
	if p.current != nil {
		p.send()
	}
	close(p.work)
	close(p.order)
	p.ended.Wait()
	return p.err
}

// pack compresses frames on a thread that ends with it.
func (p *packer) pack() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, packerNice) // at worst it is less polite
	for f := range p.work {
		f.packed = encoder().EncodeAll(f.plain, f.packed[:0])
		f.done <- struct{}{}
	}
}

// encoder is shared by all backups: it takes as much memory as their frames.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(packers),
		zstd.WithWindowSize(frameBytes), zstd.WithZeroFrames(true), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constant
	}
	return e
})

// passOn writes what is compressed in the order in which it came.
func (p *packer) passOn() {
	for f := range p.order {
		<-f.done
		if p.err == nil {
			n, err := p.w.Write(f.packed)
			if err == nil && n < len(f.packed) {
				err = io.ErrShortWrite
			}
			if err != nil {
				p.err = err
				close(p.failed)
			}
		}
		p.free <- f
	}
}
