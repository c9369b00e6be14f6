package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/store"
)

// wrap puts around the operations what every request gets.
func (a *API) wrap(next *router) http.Handler {
	return a.observe(a.cors(a.normalise(a.readBody(a.route(next)))))
}

// observe gives the request an id, a line in the access log and its metrics.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		state := &requestState{id: newRequestID(), address: a.ClientAddress(r)}
		w.Header().Set("X-Request-Id", state.id)
		seen := &recorder{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(store.Within(context.WithValue(r.Context(), stateKey{}, state), a.StoreTime))
		a.recoverPanics(seen, r, next)
		took := time.Since(begun)
		a.metrics.request(r.Method, seen.route, seen.status, took)
		a.record(r, begun, seen.route, seen.status)
		level := slog.LevelInfo
		if seen.route == "GET /healthz" || seen.route == "GET /readyz" {
			level = slog.LevelDebug
		}
		a.Logger.LogAttrs(r.Context(), level, "request",
			slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", seen.status),
			slog.Duration("took", took), slog.Int64("bytes", seen.bytes), slog.String("request_id", state.id),
			slog.Int64("account_id", int64(state.principal.Account)), slog.Int64("user_id", int64(state.principal.User.ID)),
			slog.Int64("token_id", int64(state.principal.Token)))
	})
}

// recoverPanics turns a panic into the answer to a bug, with its trace in the log.
func (a *API) recoverPanics(w *recorder, r *http.Request, next http.Handler) {
	defer func() {
		if panicked := recover(); panicked != nil {
			a.Logger.ErrorContext(r.Context(), "request panicked", "request_id", stateOf(r.Context()).id, "panic", panicked, "trace", string(debug.Stack()))
			if !w.written {
				writeJSON(w, http.StatusInternalServerError, envelopeOf("", internalText+": "+stateOf(r.Context()).id))
			}
		}
	}()
	next.ServeHTTP(w, r)
}

// recorder remembers what was answered.
type recorder struct {
	http.ResponseWriter
	status  int
	bytes   int64
	written bool
	// route is the pattern that matched, for metrics of bounded size.
	route string
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status, r.written = status, true
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	r.written = true
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func newRequestID() string {
	raw := make([]byte, 8)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return hex.EncodeToString(raw)
}

// cors lets browsers in and answers their questions.
func (a *API) cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", a.Origin)
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Allow-Methods", "HEAD, GET, OPTIONS, POST, PUT, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-None-Match, X-Filter")
			h.Set("Access-Control-Max-Age", "3600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", "ETag, X-OAuth-Scopes, X-Accepted-OAuth-Scopes, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id")
		next.ServeHTTP(w, r)
	})
}

// normalise makes one path of its spellings: /v4beta, a trailing slash, %2F.
func (a *API) normalise(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked := r.URL.Path
		if rest, ok := strings.CutPrefix(asked, "/v4beta/"); ok {
			asked = "/v4/" + rest
		}
		if len(asked) > 1 {
			asked = strings.TrimSuffix(asked, "/")
		}
		// Of two tokens a gateway may have looked at the other one.
		ambiguous := len(r.Header.Values("Authorization")) > 1
		if asked == r.URL.Path && r.URL.RawPath == "" && !ambiguous {
			next.ServeHTTP(w, r)
			return
		}
		u := *r.URL
		u.Path, u.RawPath = asked, ""
		r2 := *r
		r2.URL = &u
		if ambiguous {
			r2.Header = r.Header.Clone()
			r2.Header.Set("Authorization", "ambiguous")
		}
		next.ServeHTTP(w, &r2)
	})
}

// readBody reads a bounded body before anything is done with the request.
func (a *API) readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		// A chunked body that claims a length as well ends elsewhere for a gateway in
		// front that goes by the length, and net/http doesn't tell: nothing that
		// follows it on the connection is read.
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			writeJSON(w, http.StatusRequestEntityTooLarge, envelopeOf("", "Request body must be at most 1 MiB"))
			return
		}
		if err != nil {
			writeJSON(w, http.StatusBadRequest, envelopeOf("", "The request body couldn't be read"))
			return
		}
		stateOf(r.Context()).body = body
		r.Body = http.NoBody
		next.ServeHTTP(w, r)
	})
}

// route answers unknown paths and wrong methods in the envelope. One rule holds
// for all: 404 for a path that nothing has, 405 for one that lacks the method.
func (a *API) route(mux *router) http.Handler {
	deliver := a.deliver(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pattern, methods := mux.find(r)
		if seen, ok := w.(*recorder); ok {
			seen.route = pattern
		}
		switch {
		case pattern != "":
			deliver(pattern).ServeHTTP(w, r)
		case len(methods) > 0:
			w.Header().Set("Allow", strings.Join(append(slices.Clone(methods), http.MethodOptions), ", ")) // answered before anything is routed
			writeJSON(w, http.StatusMethodNotAllowed, envelopeOf("", "Method Not Allowed"))
		default:
			writeJSON(w, http.StatusNotFound, envelopeOf("", fault.NewNotFound().Reason))
		}
	})
}
