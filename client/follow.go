package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// silence is for how long a stream may say nothing: the server sends a comment every 15 seconds.
const silence = time.Minute

// FollowEvents calls each for every event that happens from now on, and again when it changes, until ctx ends or each
// returns an error. When the connection is lost it goes on where it was.
func (c *Client) FollowEvents(ctx context.Context, each func(Event) error) error {
	last := ""
	for {
		err := c.followOnce(ctx, &last, each)
		refused := (*Error)(nil)
		if ctx.Err() != nil || errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
			return err
		}
		if stop := (*stopped)(nil); errors.As(err, &stop) {
			return stop.error
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// stopped is an error of the caller's.
type stopped struct{ error }

// followOnce reads one connection's events; last is the id of the last one.
func (c *Client) followOnce(ctx context.Context, last *string, each func(Event) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/v4/account/events/stream", nil)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if *last != "" {
		r.Header.Set("Last-Event-ID", *last)
	}
	answer, err := (&http.Client{Transport: c.http.Transport}).Do(r) // a stream has no end to wait for
	if err != nil {
		return fmt.Errorf("reach the server: %w", err)
	}
	defer answer.Body.Close()
	lines := bufio.NewReader(answer.Body)
	if answer.StatusCode != http.StatusOK {
		refused := &Error{Status: answer.StatusCode}
		_ = json.NewDecoder(lines).Decode(refused) // not the envelope: the status says enough
		return refused
	}
	id, data := "", ""
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		quiet.Reset(silence)
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ": "); {
		case name == "id":
			id = value
		case name == "data":
			data = value
		case line == "" && data != "":
			var e Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				return fmt.Errorf("decode an event: %w", err)
			}
			if err := each(e); err != nil {
				return &stopped{err}
			}
			*last, data = id, ""
		case line == "" && id != "":
			*last = id
		}
	}
}
