package apitest

import (
	"bytes"
	"net/http"
	"testing"
)

// Handler serves as next does, and fails the test for answers that the document
// doesn't promise.
func Handler(t testing.TB, d *Document, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &tee{ResponseWriter: w, status: http.StatusOK}
		method, path := r.Method, r.URL.Path
		next.ServeHTTP(seen, r)
		body, err := plain(seen.body.Bytes(), w.Header().Get("Content-Encoding"))
		if err == nil {
			err = d.Check(Answer{method, path, seen.status, w.Header(), body})
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// tee keeps what it passes on.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (t *tee) WriteHeader(status int) {
	t.status = status
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *tee) Write(b []byte) (int, error) {
	t.body.Write(b)
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *tee) Unwrap() http.ResponseWriter { return t.ResponseWriter }
