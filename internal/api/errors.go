package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/fault"
	"steward/internal/store"
)

// problem is one entry of the error envelope.
type problem struct {
	Field  string `json:"field,omitempty" doc:"The member, parameter or header at fault; left out where it is no single one."`
	Reason string `json:"reason" doc:"For people."`
}

// envelope is every failing answer's body.
type envelope struct {
	status int
	// after is the whole seconds until another request is worth it; 0: nobody knows.
	after  int
	Errors []problem `json:"errors" nullable:"false" minItems:"1"`
}

var envelopeType = reflect.TypeFor[envelope]()

// Error implements huma.StatusError.
func (e *envelope) Error() string {
	texts := make([]string, len(e.Errors))
	for i, p := range e.Errors {
		texts[i] = p.Reason
	}
	return strings.Join(texts, "; ")
}

// GetStatus implements huma.StatusError.
func (e *envelope) GetStatus() int { return e.status }

// GetHeaders implements huma.HeadersError.
func (e *envelope) GetHeaders() http.Header {
	if e.after == 0 {
		return nil
	}
	return http.Header{"Retry-After": {strconv.Itoa(e.after)}}
}

// ContentType keeps errors exactly application/json: clients compare it.
func (e *envelope) ContentType(string) string { return "application/json" }

func envelopeOf(field, reason string) *envelope {
	return &envelope{Errors: []problem{{field, reason}}}
}

// What is answered while the store is away. Whoever tries a 503 again does no harm; what may have been done has another status, so that no client
// does it twice by itself.
const (
	awayText    = "The server's own store doesn't answer, and nothing was done. Try again in some seconds"
	doubtText   = "The server's own store went away in the middle, and whether this was done isn't known. Look before you try again"
	awaySeconds = 5
)

const internalText = "Something went wrong on our side; the request id leads the operator to it"

// statuses is the one place that maps kinds of faults to statuses (docs/rules.md, Errors).
var statuses = map[fault.Kind]int{
	fault.Invalid: http.StatusBadRequest, fault.Precondition: http.StatusBadRequest,
	fault.Unauthenticated: http.StatusUnauthorized, fault.ScopeTooSmall: http.StatusUnauthorized,
	fault.Forbidden: http.StatusForbidden, fault.NotFound: http.StatusNotFound,
	fault.TooMany: http.StatusTooManyRequests,
}

// toStatus turns what went wrong into the envelope. What isn't a fault is
// logged and answered with a fixed text.
func (a *API) toStatus(ctx context.Context, err error) *envelope {
	found, ok := fault.All(err)
	if !ok {
		id := stateOf(ctx).id
		if errors.Is(err, context.Canceled) {
			return &envelope{status: 499, Errors: []problem{{Reason: "The client has gone"}}}
		}
		if errors.Is(err, store.ErrInDoubt) || errors.Is(err, store.ErrAway) {
			return a.away(ctx, err)
		}
		a.Logger.ErrorContext(ctx, "request failed", "request_id", id, "error", err)
		return &envelope{status: http.StatusInternalServerError, Errors: []problem{{Reason: fmt.Sprintf("%s: %s", internalText, id)}}}
	}
	e := &envelope{status: statuses[found[0].Kind]}
	for _, f := range found {
		if p := (problem{f.Field, f.Reason}); !slices.Contains(e.Errors, p) {
			e.Errors = append(e.Errors, p)
		}
	}
	// As the document has a body's members: in the order of their names. What is of
	// no single one comes first, and several of one in the order they were found.
	slices.SortStableFunc(e.Errors, func(x, y problem) int { return strings.Compare(x.Field, y.Field) })
	return e
}

// away is the answer while the store is.
func (a *API) away(ctx context.Context, err error) *envelope {
	a.Logger.WarnContext(ctx, "the store is away from a request", "request_id", stateOf(ctx).id, "error", err)
	if errors.Is(err, store.ErrInDoubt) {
		return &envelope{status: http.StatusGatewayTimeout, Errors: []problem{{Reason: doubtText}}}
	}
	return &envelope{status: http.StatusServiceUnavailable, after: awaySeconds, Errors: []problem{{Reason: awayText}}}
}

// parameterReasons are the texts for parameters that Huma found out of bounds.
var parameterReasons = map[string]string{"page": "Must be 1 or more", "page_size": "Must be 25-500"}

// newHumaError is Huma's hook for problems with parameters: a path that names
// nothing that can exist is not found, the rest is named.
func newHumaError(status int, message string, errs ...error) huma.StatusError {
	if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
		return &envelope{status: status, Errors: []problem{{Reason: message}}}
	}
	e := &envelope{status: http.StatusBadRequest}
	for _, err := range errs {
		detail, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok {
			continue
		}
		place, field, _ := strings.Cut(detail.Location, ".")
		if place == "path" {
			return &envelope{status: http.StatusNotFound, Errors: []problem{{Reason: fault.NewNotFound().Reason}}}
		}
		reason := parameterReasons[field]
		if reason == "" {
			reason = detail.Message
		}
		e.Errors = append(e.Errors, problem{field, reason})
	}
	if len(e.Errors) == 0 {
		e.Errors = []problem{{Reason: message}}
	}
	return e
}

// Huma keeps these hooks in package variables; there is one API per process.
func init() { //nolint:gochecknoinits // the only place Huma offers
	huma.NewError = newHumaError
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return newHumaError(status, message, errs...)
	}
}

// writeJSON answers outside of Huma.
func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone: nobody to tell
}
