package archivetest

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const bucketName = "backups"

// Bucket speaks S3 over loopback, and can be made to fail.
type Bucket struct {
	s3      http.Handler
	server  *httptest.Server
	mu      sync.Mutex
	trouble *trouble
}

// Kind is how a request goes wrong.
type Kind int

const (
	// Refuse answers with Trouble.Status.
	Refuse Kind = iota
	// Reset ends the connection in the middle.
	Reset
	// Hang answers nothing at all.
	Hang
	// Lose does what it is asked for, and resets instead of answering.
	Lose
)

// Trouble is what goes wrong with requests to a Bucket.
type Trouble struct {
	Kind Kind
	// Status is what Refuse answers with.
	Status int
	// Match chooses requests; nil: all.
	Match func(*http.Request) bool
	// After is how many of them go well before the first that doesn't.
	After int
	// Bytes is how much of that one's content passes before it goes wrong.
	Bytes int64
	// For is how long it goes on from then; 0: until Mend.
	For time.Duration
	// Struck is called, once, when the first request goes wrong.
	Struck func()
}

type trouble struct {
	Trouble
	since time.Time
	over  chan struct{}
}

// NewBucket starts one that is empty.
func NewBucket(t testing.TB) *Bucket {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(bucketName); err != nil {
		t.Fatal(err)
	}
	b := &Bucket{s3: gofakes3.New(backend).Server()}
	b.server = httptest.NewServer(b)
	t.Cleanup(func() {
		b.Mend()
		b.server.CloseClientConnections()
		b.server.Close()
	})
	return b
}

// URL is the bucket's, as archive.Open takes it.
func (b *Bucket) URL() string {
	return "s3://" + bucketName + "?region=us-east-1&use_path_style=true&disable_https=true&endpoint=" + b.server.URL
}

// Place is the bucket's as barman has it: its server's URL, its name, and the account.
func (b *Bucket) Place() (endpoint, bucket, account, secret string) {
	return b.server.URL, bucketName, "key", "secret"
}

// Env is what a process needs to use it.
func (*Bucket) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=key", "AWS_SECRET_ACCESS_KEY=secret"}
}

// Break makes requests go wrong from now on, in the place of an earlier trouble.
func (b *Bucket) Break(t Trouble) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mend()
	b.trouble = &trouble{Trouble: t, over: make(chan struct{})}
}

// Mend ends all trouble.
func (b *Bucket) Mend() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mend()
}

func (b *Bucket) mend() {
	if b.trouble != nil {
		close(b.trouble.over)
	}
	b.trouble = nil
}

// Struck reports whether the trouble has met a request.
func (b *Bucket) Struck() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.trouble != nil && !b.trouble.since.IsZero()
}

// Keys are the objects in it, and of uploads that were never ended, those.
func (b *Bucket) Keys() (objects, uploads []string, err error) {
	for query, into := range map[string]*[]string{"list-type=2": &objects, "uploads": &uploads} {
		answer := httptest.NewRecorder()
		b.s3.ServeHTTP(answer, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/"+bucketName+"?"+query, nil))
		var list struct {
			Contents, Upload []struct{ Key string }
		}
		if strings.Contains(answer.Body.String(), "NoSuchUpload") { // how this one says that there are none
			continue
		}
		if err := xml.Unmarshal(answer.Body.Bytes(), &list); err != nil || answer.Code != http.StatusOK {
			return nil, nil, fmt.Errorf("list %s: %d %w", query, answer.Code, err)
		}
		for _, found := range append(list.Contents, list.Upload...) {
			*into = append(*into, found.Key)
		}
	}
	return objects, uploads, nil
}

// ServeHTTP implements http.Handler.
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, first := b.meets(r)
	if t == nil {
		b.s3.ServeHTTP(w, r)
		return
	}
	if first {
		b.begin(w, r, t)
	}
	if t.Kind == Lose {
		b.s3.ServeHTTP(httptest.NewRecorder(), r)
	}
	if first && t.Struck != nil {
		t.Struck()
	}
	t.fail(w, r)
}

// meets reports whether a request goes wrong, and whether it is the first to.
func (b *Bucket) meets(r *http.Request) (t *trouble, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t = b.trouble
	if t == nil || t.Match != nil && !t.Match(r) {
		return nil, false
	}
	if t.After > 0 {
		t.After--
		return nil, false
	}
	if first = t.since.IsZero(); first {
		t.since = time.Now()
	}
	if t.For > 0 && time.Since(t.since) > t.For {
		return nil, false
	}
	return t, first
}

// begin lets as much of a request's content pass as is meant to: of what is sent,
// or of what is answered.
func (b *Bucket) begin(w http.ResponseWriter, r *http.Request, t *trouble) {
	if t.Bytes == 0 {
		return
	}
	if r.Method != http.MethodGet {
		_, _ = io.CopyN(io.Discard, r.Body, t.Bytes)
		return
	}
	whole := httptest.NewRecorder()
	b.s3.ServeHTTP(whole, r)
	maps.Copy(w.Header(), whole.Header())
	content := whole.Body.Bytes()
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(whole.Code)
	_, _ = w.Write(content[:min(t.Bytes, int64(len(content)))])
	_ = http.NewResponseController(w).Flush()
}

func (t *trouble) fail(w http.ResponseWriter, r *http.Request) {
	switch t.Kind {
	case Hang:
		select {
		case <-t.over:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler)
	case Reset, Lose:
		reset(w)
	case Refuse:
		_, _ = io.Copy(io.Discard, r.Body) // who is still sending may see a reset instead of the answer
		w.Header().Set("Connection", "close")
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(t.Status)
		code := strings.ReplaceAll(http.StatusText(t.Status), " ", "")
		fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
	}
}

// reset ends a connection without the courtesy of saying so.
func reset(w http.ResponseWriter) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(errors.Join(http.ErrAbortHandler, err))
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
