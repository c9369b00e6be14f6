package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"steward/internal/control"
	"steward/internal/operation"
)

// Times of the stream of events.
const (
	// heartbeat is shorter than what proxies wait for.
	heartbeat = 15 * time.Second
	// slowest is how long a reader may take for what it is sent.
	slowest = 10 * time.Second
)

// streamStart are the parameters of the stream.
type streamStart struct {
	LastEventID string `header:"Last-Event-ID" doc:"The id of the last event that was read: the stream goes on behind it."`
	Lists       bool   `query:"lists" doc:"Whether to be told, too, when lists change that no event is of."`
}

// registerEventStream adds the stream of events, whose answer is no JSON.
func (a *API) registerEventStream() {
	e := endpoint{method: http.MethodGet, path: "/v4/account/events/stream", id: "streamEvents", summary: "Follow events as they happen", tag: "Events", scope: readEvents, stream: true}
	op := huma.Operation{
		OperationID: e.id, Method: e.method, Path: e.path, Summary: e.summary, Tags: []string{e.tag}, DefaultStatus: http.StatusOK,
		Description: "Server-sent events: each has the event, as the list has it, in its data, whenever that is new or has changed. " +
			"With lists there are also some of the type list, whose data is audit, logins, apps or accounts: what the token may see of that has changed. " +
			"Comments come while nothing happens. The stream ends with its token, when it isn't read fast enough, and when the server stops: go on with Last-Event-ID.",
		Responses: map[string]*huma.Response{
			"200": {Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		},
		Middlewares: huma.Middlewares{a.authenticate(e)}, Extensions: map[string]any{"x-scope": e.scopeText()},
		Security: []map[string][]string{{"personalAccessToken": {}}, {"oauth": e.scopeList()}},
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *streamStart) (*huma.StreamResponse, error) {
		reader, err := a.Control.Events.Follow(ctx, stateOf(ctx).principal, in.LastEventID, in.Lists)
		if err != nil {
			return nil, a.toStatus(ctx, err)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { a.stream(ctx, reader) }}, nil
	})
	documentAnswers(e, a.operation(e))
	a.deliveries[e.method+" "+e.path] = e.delivery()
}

// stream writes events until the reader or the client goes. It returns at once where it can: a request keeps its buffers and stacks until
// its handler returns, and thousands may follow.
func (a *API) stream(hc huma.Context, reader *control.EventReader) {
	r, w := humago.Unwrap(hc)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	if reader == nil || r.Method == http.MethodHead {
		if reader != nil {
			reader.Close()
		}
		w.WriteHeader(http.StatusOK)
		return
	}
	request, controller := stateOf(r.Context()).id, http.NewResponseController(w)
	if conn, _, err := controller.Hijack(); err == nil {
		go a.streamApart(conn, w.Header().Clone(), reader, request)
		return
	}
	// The connection is shared by several requests, as HTTP/2 has it. Its own bounds are for answers that end.
	_ = controller.SetReadDeadline(time.Time{})
	a.follow(r.Context(), eventWriter{controller.SetWriteDeadline, func(text string) error {
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return controller.Flush()
	}}, reader, request)
}

// streamApart is stream on a connection that is nothing else's any more.
func (a *API) streamApart(conn net.Conn, header http.Header, reader *control.EventReader, request string) {
	defer conn.Close()
	defer func() {
		if panicked := recover(); panicked != nil {
			a.Logger.Error("stream panicked", "request_id", request, "panic", panicked, "trace", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := eventWriter{conn.SetWriteDeadline, func(text string) error {
		_, err := conn.Write([]byte(text))
		return err
	}}
	if conn.SetDeadline(time.Time{}) != nil || s.write(streamHead(header)) != nil {
		reader.Close()
		return
	}
	go func() {
		defer cancel()
		_, _ = conn.Read(make([]byte, 1)) // a client says nothing more: it has gone
	}()
	a.follow(ctx, s, reader, request)
}

// streamHead is the beginning of an answer that ends with its connection.
func streamHead(header http.Header) string {
	header.Set("Connection", "close")
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var head strings.Builder
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head) // a builder takes all
	head.WriteString("\r\n")
	return head.String()
}

// follow writes events until the reader or the client goes.
func (a *API) follow(ctx context.Context, s eventWriter, reader *control.EventReader, request string) {
	defer reader.Close()
	if s.write(fmt.Sprintf("retry: 1000\nid: %s\n\n", reader.Position())) != nil {
		return
	}
	for {
		missed, err := reader.Missed(ctx)
		if err != nil {
			a.Logger.WarnContext(ctx, "stream events", "request_id", request, "error", err)
			return
		}
		if len(missed) == 0 {
			break
		}
		if a.writeEvents(s, missed) != nil {
			return
		}
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if s.write(": nothing happened\n\n") != nil {
				return
			}
		case <-reader.Listed():
			for _, list := range reader.Lists() {
				if s.write("event: list\ndata: "+string(list)+"\n\n") != nil {
					return
				}
			}
		case batch, open := <-reader.Batches():
			if !open || a.writeEvents(s, reader.Take(batch)) != nil {
				return
			}
		}
	}
}

func (a *API) writeEvents(w eventWriter, events []control.FollowedEvent) error {
	for _, e := range events {
		data := e.Text(func(o operation.Operation) []byte {
			text, err := json.Marshal(a.showEvent(o))
			if err != nil {
				a.Logger.Error("encode an event", "operation_id", int64(o.ID), "error", err)
			}
			return text
		})
		if err := w.write("id: " + e.Position.String() + "\ndata: " + string(data) + "\n\n"); err != nil {
			return err
		}
	}
	return nil
}

// eventWriter writes to a client that has to take it.
type eventWriter struct {
	deadline func(time.Time) error
	send     func(text string) error
}

func (e eventWriter) write(text string) error {
	if err := e.deadline(time.Now().Add(slowest)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return e.send(text)
}
