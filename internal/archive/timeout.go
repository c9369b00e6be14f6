package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gocloud.dev/blob"
)

// stepTimeouts are how many timeouts a single step with the bucket takes at most,
// such as a deletion or the sending of a part: enough for S3's attempts and their
// pauses. Other buckets have this bound alone.
const stepTimeouts = 10

var errTimeout = errors.New("the bucket didn't answer in time")

// step does something with the bucket that doesn't depend on how much data there is.
func (a *Archive) step(ctx context.Context, do func(ctx context.Context) error) error {
	ctx, p := a.withStepTimer(ctx)
	defer p.end()
	return p.during(func() error { return do(ctx) })
}

// stepTimer ends what a bucket is asked for once it has blocked for too long. The
// time between two steps, which is somebody else's, doesn't count.
type stepTimer struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
}

func (a *Archive) withStepTimer(ctx context.Context) (context.Context, *stepTimer) {
	p := &stepTimer{limit: a.limit}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.timer = time.AfterFunc(p.limit, func() { p.cancel(errTimeout) })
	p.timer.Stop()
	return p.ctx, p
}

// during is one step. Its error is marked as the bucket's.
func (p *stepTimer) during(do func() error) error {
	p.timer.Reset(p.limit)
	err := do()
	p.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) && errors.Is(context.Cause(p.ctx), errTimeout) {
		err = fmt.Errorf("%w: %w", errTimeout, err)
	}
	return classify(err)
}

// end gives up what isn't finished.
func (p *stepTimer) end() { p.timer.Stop(); p.cancel(nil) }

// upload writes an object. It is one only once Close has returned nil.
type upload struct {
	*stepTimer
	a   *Archive
	key string
	w   *blob.Writer
	// sent is how many bytes were written.
	sent int64
	// err is the bucket's: programs whose output can't be written say something else.
	err error
}

func (a *Archive) upload(ctx context.Context, key string, part int) (*upload, error) {
	ctx, p := a.withStepTimer(ctx)
	u := &upload{stepTimer: p, a: a, key: key}
	err := p.during(func() (err error) {
		u.w, err = a.bucket.NewWriter(ctx, key, &blob.WriterOptions{
			BufferSize: part, MaxConcurrency: 1, ContentType: "application/octet-stream", BeforeWrite: a.uploads.small(part),
		})
		return err
	})
	if err != nil {
		p.end()
		return nil, err
	}
	return u, nil
}

func (u *upload) Write(b []byte) (n int, err error) {
	err = u.during(func() error { n, err = u.w.Write(b); return err })
	u.sent += int64(n)
	if u.err == nil {
		u.err = err
	}
	return n, err
}

// Close ends the object. When the bucket's answer is lost, it is asked again and
// knows of no such upload any more: then the object tells.
func (u *upload) Close() error {
	defer u.end()
	err := u.during(u.w.Close)
	if noUpload(err) && u.isThere() {
		return nil
	}
	return err
}

// isThere reports whether the bucket has an object of what was sent.
func (u *upload) isThere() bool {
	var size int64
	err := u.during(func() error {
		found, err := u.a.bucket.Attributes(u.ctx, u.key)
		if err == nil {
			size = found.Size
		}
		return err
	})
	return err == nil && size == u.sent
}

// abandon leaves nothing, as far as the bucket lets it. It returns what went
// wrong with the bucket before.
func (u *upload) abandon() error {
	u.end()
	_ = u.w.Close() // only says that it was given up
	return u.err
}

// reopenings are how often reading goes on after the bucket broke off, without a
// byte in between.
const reopenings = 3

// object reads what is stored from its beginning to its end.
type object struct {
	*stepTimer
	a   *Archive
	key string
	r   *blob.Reader
	at  int64
	// err is why reading ended early; the bucket's.
	err error
}

func (a *Archive) object(ctx context.Context, key string) (*object, error) {
	o := &object{a: a, key: key}
	_, o.stepTimer = a.withStepTimer(ctx)
	if err := o.open(); err != nil {
		o.end()
		return nil, err
	}
	return o, nil
}

func (o *object) open() error {
	return o.during(func() (err error) { o.r, err = o.a.bucket.NewRangeReader(o.ctx, o.key, o.at, -1, nil); return err })
}

// Read goes on where the bucket breaks off.
func (o *object) Read(b []byte) (n int, err error) {
	for try := 0; o.err == nil; try++ {
		err = o.during(func() error { n, err = o.r.Read(b); return err })
		o.at += int64(n)
		switch {
		case err == nil || errors.Is(err, io.EOF) || n > 0: // an error comes again
			if n > 0 {
				err = nil
			}
			return n, err
		case o.at >= o.r.Size():
			return 0, io.EOF
		case try == reopenings || o.ctx.Err() != nil:
			o.err = err
		default:
			o.a.log.WarnContext(o.ctx, "the bucket broke off; reading on", "key", o.key, "at", o.at, "error", err)
			o.err = o.reopen(try)
		}
	}
	return 0, o.err
}

func (o *object) reopen(try int) error {
	o.r.Close()
	select {
	case <-o.ctx.Done():
	case <-time.After(o.limit / stepTimeouts / pauses << try): // with the default 5 s, 10 s, 20 s
	}
	return o.open()
}

// blame says of an error whether what was read is damaged or couldn't be read.
func (o *object) blame(err error) error {
	if o.err != nil {
		return o.err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// Close ends reading.
func (o *object) Close() error {
	o.end()
	if o.r == nil {
		return nil
	}
	return o.r.Close()
}
