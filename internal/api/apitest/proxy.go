package apitest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands before a server for as long as a test lasts, for every client that
// the test uses, and fails the test for answers that the document doesn't
// promise. The server itself gives the document: /openapi.yaml; the first of a program
// gives it for all, since to write, read and compile it takes a moment.
func Proxy(t testing.TB, backend, program string) string {
	t.Helper()
	to, err := url.Parse(backend)
	if err != nil {
		t.Fatal(err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // what the client asked for goes through as it is
	proxy := httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			d, err := documentOf(program, backend)
			if err != nil {
				t.Errorf("the API's document: %v", err)
				return nil
			}
			if err := d.checkResponse(r); err != nil {
				t.Error(err)
			}
			return nil
		},
		// A server that is down has to look like it.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewServer(&proxy)
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// documents are those of the programs whose servers were asked.
var documents struct {
	sync.Mutex
	byProgram map[string]*Document
}

func documentOf(program, backend string) (*Document, error) {
	documents.Lock()
	defer documents.Unlock()
	if d := documents.byProgram[program]; d != nil {
		return d, nil
	}
	d, err := fetch(backend)
	if err != nil {
		return nil, err
	}
	if documents.byProgram == nil {
		documents.byProgram = map[string]*Document{}
	}
	documents.byProgram[program] = d
	return d, nil
}

func fetch(backend string) (*Document, error) {
	resp, err := http.Get(backend + "/openapi.yaml")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("/openapi.yaml answered %d", resp.StatusCode)
	}
	return Parse(text)
}

// checkResponse checks an answer and leaves it as it was.
func (d *Document) checkResponse(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		return nil // the server was ended in mid-answer; the client finds out by itself
	}
	if body, err = plain(body, r.Header.Get("Content-Encoding")); err != nil {
		return err
	}
	return d.Check(Answer{r.Request.Method, r.Request.URL.Path, r.StatusCode, r.Header, body})
}

// plain undoes a content encoding.
func plain(body []byte, encoding string) ([]byte, error) {
	if encoding != "gzip" || len(body) == 0 {
		return body, nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("unpack the answer: %w", err)
	}
	return io.ReadAll(unpacked)
}
