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
	"strings"
	"time"

	"steward/internal/fault"
)

// wrap puts around the operations what every request gets.
func (a *API) wrap(next *http.ServeMux) http.Handler {
	return a.observe(a.cors(a.normalise(a.readBody(a.route(next)))))
}

// observe gives the request an id, a line in the access log and its metrics.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		state := &requestState{id: newRequestID()}
		w.Header().Set("X-Request-Id", state.id)
		seen := &recorder{ResponseWriter: w, status: http.StatusOK}
		r = r.WithContext(context.WithValue(r.Context(), stateKey{}, state))
		a.recoverPanics(seen, r, next)
		took := time.Since(begun)
		a.metrics.request(r.Method, seen.route, seen.status, took)
		a.record(r, begun, seen.route, seen.status)
		level := slog.LevelInfo
		if seen.route == "GET /healthz" || seen.route == "GET /readyz" || seen.route == "GET /metrics" {
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

// WriteHeader is part of http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status, r.written = status, true
	r.ResponseWriter.WriteHeader(status)
}

// Write is part of http.ResponseWriter.
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
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Filter")
			h.Set("Access-Control-Max-Age", "3600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", "X-OAuth-Scopes, X-Accepted-OAuth-Scopes, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Request-Id")
		next.ServeHTTP(w, r)
	})
}

// normalise makes one path of its spellings: /v4beta, a trailing slash, %2F.
func (a *API) normalise(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path
		if rest, ok := strings.CutPrefix(path, "/v4beta/"); ok {
			path = "/v4/" + rest
		}
		if len(path) > 1 {
			path = strings.TrimSuffix(path, "/")
		}
		u := *r.URL
		u.Path, u.RawPath = path, ""
		r2 := *r
		r2.URL = &u
		// Of two tokens a gateway may have looked at the other one.
		if all := r.Header.Values("Authorization"); len(all) > 1 {
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

// route answers unknown paths and wrong methods in the envelope.
func (a *API) route(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if seen, ok := w.(*recorder); ok {
			seen.route = pattern
		}
		if pattern != "" && !strings.Contains(r.URL.Path, "//") {
			mux.ServeHTTP(w, r)
			return
		}
		if allowed := methods(mux, r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeJSON(w, http.StatusMethodNotAllowed, envelopeOf("", "Method Not Allowed"))
			return
		}
		writeJSON(w, http.StatusNotFound, envelopeOf("", fault.NewNotFound().Reason))
	})
}

// methods are those the path would answer to.
func methods(mux *http.ServeMux, r *http.Request) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}
