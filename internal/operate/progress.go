package operate

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progress reports how far a copy is, in a goroutine of its own: the copy isn't
// held up by the store, and a silent one shows as alive.
type progress struct {
	bytes atomic.Int64
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// aliveFor is how long after its last report somebody else looks after an
// operation; reports come several times as often.
const aliveFor = time.Minute

// report begins to report how many of about total bytes are done, verb saying
// what is done with them, until end.
func (w *work) report(ctx context.Context, verb string, total int64) *progress {
	p := &progress{}
	ctx, p.stop = context.WithCancel(ctx)
	p.ended.Go(func() {
		tick := time.NewTicker(w.Limits.Report)
		defer tick.Stop()
		told, at := int64(-1), time.Time{}
		for {
			if done := p.bytes.Load(); done != told || time.Since(at) > aliveFor/4 {
				told, at = done, time.Now()
				err := w.Store.ProgressOperation(ctx, w.op.ID, percent(done, total), fmt.Sprintf("%d MB of about %d MB are %s.", done>>20, total>>20, verb), aliveFor)
				if err != nil && ctx.Err() == nil {
					w.log.WarnContext(ctx, "report progress", "error", err)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return p
}

func (p *progress) end() {
	p.stop()
	p.ended.Wait()
}

// percent is how much of total is done; never all of it, since what follows a
// copy takes its time too.
func percent(done, total int64) int {
	const most = 99
	if total <= 0 {
		return 0
	}
	return int(min(done*100/total, most))
}

// counted counts what is written.
type counted struct {
	io.Writer
	bytes *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// counting counts what is read.
type counting struct {
	io.Reader
	bytes *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}
