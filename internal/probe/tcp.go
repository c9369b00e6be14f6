package probe

import (
	"context"
	"errors"
	"io"
	"os"

	"steward/internal/monitor"
)

// tcp is well when a connection is accepted and, if a text is wanted, that is in
// what the server says unasked.
func (c *check) tcp(ctx context.Context) error {
	conn, err := c.connect(ctx, c.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.Body == "" {
		return nil
	}
	c.phase = waiting
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	text, body := newWindow(c.Body), io.LimitReader(conn, mostBody)
	for {
		n, err := body.Read(buffer[:])
		if n > 0 {
			c.phase = reading
		}
		if text.seen(buffer[:n]) {
			return nil
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), c.phase == reading && errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil:
			return &failure{monitor.TextNotFound, "The expected text isn't in what the server sends first."}
		default:
			return err
		}
	}
}
