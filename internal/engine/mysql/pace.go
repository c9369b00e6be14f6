package mysql

import (
	"context"
	"io"
	"strconv"
	"time"

	"steward/internal/engine"
	"steward/internal/wait"
)

const (
	// writersKeep is the part of their throughput that writers are meant to keep
	// while data is copied at full speed now and then; a little above what is
	// promised.
	writersKeep = 0.9
	// paceRun is for how long a copy runs, or until its next block is there, before
	// writers get a pause; pauseMost, how many times as long that is at most: a copy
	// has to end, too. Six times let writers keep their part that get a quarter of
	// their throughput in runs, as measured with data on one disk.
	paceRun, pauseMost = 100 * time.Millisecond, 6
	// pauseLeast is a pause in which can be told what writers do when left alone;
	// pauseLongest bounds what a single long run leads to.
	pauseLeast, pauseLongest = 20 * time.Millisecond, 2 * pauseMost * paceRun
	// paceLook is the time between two looks whether anybody writes.
	paceLook = 20 * time.Millisecond
	// paceMemory is how much the last run and pause count among those before.
	paceMemory = 0.3
)

// pace holds a copy's stream up while the server has writers: reading its data
// from the same disk makes each commit wait, whatever the reader's priority. It
// compares what is written during runs and during pauses, and pauses for as long
// as lets writers keep their part. A server that nobody writes to isn't waited
// for, nor is one that blocks writers at the end of the copy.
type pace struct {
	ctx context.Context // the copy's: io.Writer has none
	w   io.Writer
	// written is how much the server's sessions have written; nil: nobody can tell,
	// no pauses.
	written func() (uint64, error)
	begun   time.Time
	from    uint64
	// running and paused are what is written a second, share how many times as long as a run
	// a pause is.
	running, paused, share float64
}

func newPace(ctx context.Context, w io.Writer, written func() (uint64, error)) *pace {
	p := &pace{ctx: ctx, w: w, written: written, share: 1}
	p.begin()
	return p
}

// begin begins a run.
func (p *pace) begin() {
	if p.written == nil {
		return
	}
	var err error
	if p.from, err = p.written(); err != nil {
		p.written = nil
	}
	p.begun = time.Now()
}

// Write implements io.Writer.
func (p *pace) Write(b []byte) (int, error) {
	if p.written != nil && time.Since(p.begun) >= paceRun {
		p.pause()
	}
	return p.w.Write(b)
}

// pause ends a run, and begins the next one when writers have had their time.
func (p *pace) pause() {
	ran, from := time.Since(p.begun), p.from
	p.begin()
	if p.written == nil || p.from == from {
		return
	}
	p.running = remember(p.running, float64(p.from-from)/ran.Seconds())
	length := max(pauseLeast, min(time.Duration(p.share*float64(ran)), pauseLongest))
	begun, from := p.begun, p.from
	for p.written != nil && time.Since(begun) < length {
		before := p.from
		if wait.Sleep(p.ctx, paceLook) != nil {
			return // the copy has been called off
		}
		if p.begin(); p.from == before {
			return // nobody writes now
		}
	}
	p.paused = remember(p.paused, float64(p.from-from)/time.Since(begun).Seconds())
	p.share = pauseShare(p.running / p.paused)
}

func remember(average, last float64) float64 {
	if average == 0 {
		return last
	}
	return average + paceMemory*(last-average)
}

// pauseShare is how many times as long as a run a pause has to be, when writers
// keep the part kept during runs and all of it during pauses.
func pauseShare(kept float64) float64 {
	return min(max(0, (writersKeep-kept)/(1-writersKeep)), pauseMost)
}

// rowsWritten tells how many rows a server's sessions have written, replication's
// among them. Its redo log would tell as well, but goes on after they have ended.
func rowsWritten(ctx context.Context, s *session) func() (uint64, error) {
	const query = "SELECT CAST(SUM(VARIABLE_VALUE) AS UNSIGNED) FROM information_schema.GLOBAL_STATUS " +
		"WHERE VARIABLE_NAME IN ('HANDLER_WRITE', 'HANDLER_UPDATE', 'HANDLER_DELETE')"
	return func() (uint64, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		text, err := s.text(ctx, query)
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(text, 10, 64)
	}
}

// paced is the writer through which a copy of the node's data gives way to its
// writers; done ends that. Without a session the copy is only less polite.
func (d *Driver) paced(ctx context.Context, n engine.Node, w io.Writer) (paced io.Writer, done func()) {
	s, err := d.admin(ctx, n)
	if err != nil {
		return w, func() {}
	}
	return newPace(ctx, w, rowsWritten(ctx, s)), s.close
}
