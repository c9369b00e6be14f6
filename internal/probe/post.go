package probe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"steward/internal/monitor"
)

// Request is what is posted.
type Request struct {
	Header http.Header
	Body   []byte
	// Before is asked right before anything of it is sent; its error ends the post.
	Before func() error
}

// Post sends a request to where the target leads, by the rules that checks go by. No redirect is followed: what is signed goes
// to where it was meant for. The result tells as little of the other side as a check's; the error is Before's.
func (p *Prober) Post(ctx context.Context, t Target, r Request) (monitor.Result, error) {
	started := time.Now()
	c := &check{p: p, Target: t, deadline: started.Add(t.Timeout), http1: true}
	refused, err := c.post(ctx, r)
	c.result.Class, c.result.Detail = monitor.OK, ""
	if err != nil {
		c.fail(ctx, err)
	}
	c.result.Started, c.result.Took = started, time.Since(started)
	return c.result, refused
}

func (c *check) post(ctx context.Context, r Request) (refused, err error) {
	conn, err := c.connect(ctx, c.Address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if strings.HasPrefix(c.Address.URL, "https:") {
		secure, err := c.handshake(conn, c.Address)
		if err != nil {
			return nil, err
		}
		conn = secure
	}
	authority, target := split(c.Address.URL)
	if err := r.Before(); err != nil {
		return err, errBrokenOff
	}
	c.phase = waiting
	var head bytes.Buffer
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nConnection: close\r\nContent-Length: %d\r\n", target, authority, c.p.agent, len(r.Body))
	if err := r.Header.Write(&head); err != nil {
		return nil, fmt.Errorf("write headers: %w", err)
	}
	head.WriteString("\r\n")
	if _, err := conn.Write(append(head.Bytes(), r.Body...)); err != nil {
		return nil, err
	}
	return nil, c.posted(conn)
}

// errBrokenOff is what is wrong when nothing was to be sent.
var errBrokenOff = &failure{monitor.Inconclusive, "The check was broken off."}

// posted judges the head of the answer; the rest isn't read.
func (c *check) posted(conn io.Reader) error {
	limited := &io.LimitedReader{R: conn, N: mostHeader}
	r := &headReader{buffered: bufio.NewReader(limited)}
	r.limited.N = 1 // the bound is the reader's own
	response, err := r.answer()
	if err != nil {
		return err
	}
	defer response.Body.Close()
	c.result.Status = response.StatusCode
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		return &failure{monitor.BadStatus, fmt.Sprintf("The answer has status %d.", response.StatusCode)}
	}
	return nil
}
