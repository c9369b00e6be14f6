package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
)

// delivery is what may be done with a route's answers on their way out.
type delivery int

const (
	// deliverAsIs is for what is none of the API's: pages and forms of OAuth, probes.
	deliverAsIs delivery = iota
	// deliverSecret is for answers that may carry a secret. They are never compressed,
	// since the length of what is compressed tells of a secret beside a text that an
	// attacker chooses, and nobody may keep them.
	deliverSecret
	// deliverPacked compresses answers for clients that take it.
	deliverPacked
	// deliverTagged compresses answers, too, and clients may keep them and ask after
	// them by their tag.
	deliverTagged
)

// delivery is how the operation's answers are delivered.
func (e endpoint) delivery() delivery {
	switch {
	case e.stream:
		return deliverAsIs
	case e.secret:
		return deliverSecret
	case e.method == http.MethodGet:
		return deliverTagged
	}
	return deliverPacked
}

// leastPacked is the size in bytes from which an answer is compressed: smaller ones, such as a database, fit into two packets as they are, and to
// compress one takes as long as to look the database up.
const leastPacked = 2 << 10

// pack compresses a handler's answers.
var pack = newPack()

func newPack() func(http.Handler) http.HandlerFunc {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(leastPacked), gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false),
		gzhttp.ContentTypes([]string{"application/json", "application/yaml", "text/html", "text/plain"}),
	)
	if err != nil {
		panic(err) // the options are constants
	}
	return wrap
}

// deliver answers as next does, in the way that each route's answers go out.
func (a *API) deliver(next http.Handler) func(pattern string) http.Handler {
	ways := map[delivery]http.Handler{
		deliverAsIs:   next,
		deliverSecret: cacheControl("no-store", next),
		deliverPacked: pack(next),
		deliverTagged: cacheControl("private, no-cache", pack(tag(next))),
	}
	return func(pattern string) http.Handler { return ways[a.deliveries[pattern]] }
}

func cacheControl(value string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", value)
		next.ServeHTTP(w, r)
	})
}

// tag names each answer of status 200 by its content, and leaves its body out for
// clients that have it.
func tag(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := &heldAnswer{ResponseWriter: w, status: http.StatusOK, body: bodies.Get().(*bytes.Buffer)}
		next.ServeHTTP(held, r)
		held.send(r)
		if held.body.Cap() <= mostKept {
			held.body.Reset()
			bodies.Put(held.body)
		}
	})
}

// bodies hold answers, one after the other. One that has grown past mostKept bytes isn't kept.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const mostKept = 64 << 10

// heldAnswer holds an answer back until all of it is known.
type heldAnswer struct {
	http.ResponseWriter
	status int
	body   *bytes.Buffer
}

// WriteHeader implements http.ResponseWriter.
func (h *heldAnswer) WriteHeader(status int) { h.status = status }

// Write implements http.ResponseWriter.
func (h *heldAnswer) Write(b []byte) (int, error) { return h.body.Write(b) }

// Unwrap is for http.ResponseController.
func (h *heldAnswer) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *heldAnswer) send(r *http.Request) {
	if h.status == http.StatusOK {
		etag := etagOf(h.body.Bytes())
		h.Header().Set("ETag", etag)
		if matches(r.Header.Values("If-None-Match"), etag) {
			h.Header().Del("Content-Type")
			h.ResponseWriter.WriteHeader(http.StatusNotModified)
			return
		}
	}
	h.ResponseWriter.WriteHeader(h.status)
	// To HEAD nothing is written: net/http would tell its length, which isn't that of
	// what GET would send compressed.
	if h.body.Len() > 0 && r.Method != http.MethodHead {
		_, _ = h.ResponseWriter.Write(h.body.Bytes()) // the client has gone: nobody to tell
	}
}

// etagOf is a weak tag, because compressed and not the same content has other bytes.
func etagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches reports whether lines of If-None-Match have the tag, by the weak
// comparison that HTTP wants there.
func matches(lines []string, etag string) bool {
	for _, line := range lines {
		for one := range strings.SplitSeq(line, ",") {
			one = strings.TrimSpace(one)
			if one == "*" || strings.TrimPrefix(one, "W/") == strings.TrimPrefix(etag, "W/") {
				return true
			}
		}
	}
	return false
}
