package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
}

// registerEventStream adds the stream of events, whose answer is no JSON.
func (a *API) registerEventStream() {
	e := endpoint{method: http.MethodGet, path: "/v4/account/events/stream", id: "streamEvents", summary: "Follow events as they happen", tag: "Events", scope: readEvents, stream: true}
	op := huma.Operation{
		OperationID: e.id, Method: e.method, Path: e.path, Summary: e.summary, Tags: []string{e.tag}, DefaultStatus: http.StatusOK,
		Description: "Server-sent events: each has the event, as the list has it, in its data, whenever that is new or has changed. " +
			"Comments come while nothing happens. The stream ends with its token, when it isn't read fast enough, and when the server stops: go on with Last-Event-ID.",
		Responses: map[string]*huma.Response{
			"200": {Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		},
		Middlewares: huma.Middlewares{a.authenticate(e)}, Extensions: map[string]any{"x-scope": e.scopeText()},
		Security: []map[string][]string{{"personalAccessToken": {}}, {"oauth": e.scopeList()}},
	}
	huma.Register(a.huma, op, func(ctx context.Context, in *streamStart) (*huma.StreamResponse, error) {
		reader, err := a.Control.Events.Follow(ctx, stateOf(ctx).principal, in.LastEventID)
		if err != nil {
			return nil, a.toStatus(ctx, err)
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { a.stream(ctx, reader) }}, nil
	})
	documentAnswers(e, a.operation(e))
	a.deliveries[e.method+" "+e.path] = e.delivery()
}

// stream writes events until the reader or the client goes.
func (a *API) stream(hc huma.Context, reader *control.EventReader) {
	r, w := humago.Unwrap(hc)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	s := eventWriter{w, http.NewResponseController(w)}
	if reader == nil || r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return
	}
	defer reader.Close()
	// The connection's own bounds are for answers that end.
	_ = s.control.SetReadDeadline(time.Time{})
	if s.write(fmt.Sprintf("retry: 1000\nid: %s\n\n", reader.Position())) != nil {
		return
	}
	for {
		missed, err := reader.Missed(r.Context())
		if err != nil {
			a.Logger.WarnContext(r.Context(), "stream events", "request_id", stateOf(r.Context()).id, "error", err)
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
		case <-r.Context().Done():
			return
		case <-beat.C:
			if s.write(": nothing happened\n\n") != nil {
				return
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
	w       http.ResponseWriter
	control *http.ResponseController
}

func (e eventWriter) write(text string) error {
	if err := e.control.SetWriteDeadline(time.Now().Add(slowest)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.control.Flush()
}
