package pgtest

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"steward/internal/testdir"
)

// Proxy stands between stores and their server, as a network does.
type Proxy struct {
	// URL is how to connect through it.
	URL string

	server string // its socket

	mu    sync.Mutex
	links []*link
}

// link is a connection of a client's.
type link struct {
	client, server net.Conn
	// start is what the client said first: its user, its database, its application.
	start   []byte
	severed atomic.Bool
}

// NewProxy stands before the server of the URL until the test ends.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	dir, query := testdir.New(t, "px"), u.Query()
	p := &Proxy{server: filepath.Join(query.Get("host"), socket)}
	query.Set("host", dir)
	u.RawQuery = query.Encode()
	p.URL = u.String()
	listener, err := net.Listen("unix", filepath.Join(dir, socket))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		for _, l := range p.links {
			l.client.Close()
			l.server.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

// Sever ends the server's side of all connections of an application, as the
// server does when it has lost sight of a machine. The clients aren't told.
func (p *Proxy) Sever(application string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links {
		if bytes.Contains(l.start, []byte(application+"\x00")) {
			l.severed.Store(true)
			l.server.Close()
		}
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	start := make([]byte, 4096)
	n, err := client.Read(start)
	if err != nil {
		return
	}
	l := &link{client: client, server: server, start: start[:n]}
	p.mu.Lock()
	p.links = append(p.links, l)
	p.mu.Unlock()
	if _, err := server.Write(l.start); err != nil {
		return
	}
	var asking sync.WaitGroup
	asking.Go(func() {
		_, _ = io.Copy(server, client) // whichever side has gone: both end
		server.Close()
		if l.severed.Load() {
			_, _ = io.Copy(io.Discard, client)
		}
	})
	_, _ = io.Copy(client, server)
	if !l.severed.Load() {
		client.Close()
	}
	asking.Wait()
}
