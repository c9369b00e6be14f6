package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"steward/internal/monitor"
)

// mostRedirects is how many redirects are followed (docs/rules.md, Managed services).
const mostRedirects = 5

// url is well when the last of the redirects answers below 400 and, if a text is
// wanted, that is in its body.
func (c *check) url(ctx context.Context) error {
	for a := c.Address; ; c.redirects++ {
		location, err := c.hop(ctx, a)
		if err != nil || location == "" {
			return err
		}
		if c.redirects == mostRedirects {
			return &failure{monitor.BadRedirect, fmt.Sprintf("There are more than %d redirects.", mostRedirects)}
		}
		next, err := a.Follow(location)
		switch {
		case errors.Is(err, monitor.ErrRedirectDowngrade):
			return &failure{monitor.BadRedirect, "A redirect leads from https to http."}
		case err != nil:
			return &failure{monitor.BadRedirect, "A redirect leads to what is no http or https URL."}
		}
		a = next
	}
}

// hop requests one URL on a connection of its own. A location is where the answer
// says to look instead.
func (c *check) hop(ctx context.Context, a monitor.Address) (location string, err error) {
	conn, err := c.connect(ctx, a)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	exchange := c.exchange1
	if strings.HasPrefix(a.URL, "https:") {
		secure, err := c.handshake(conn, a)
		if err != nil {
			return "", err
		}
		if conn = secure; secure.ConnectionState().NegotiatedProtocol == "h2" {
			exchange = c.exchange2
		}
	}
	c.phase = waiting
	response, done, err := exchange(ctx, conn, a) //nolint:bodyclose // done closes what there is to close
	if err != nil {
		return "", err
	}
	defer done()
	c.result.Status = response.StatusCode
	return c.judgeAnswer(response)
}

func (c *check) judgeAnswer(response *http.Response) (location string, err error) {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		if location := response.Header.Get("Location"); location != "" {
			return location, nil
		}
	}
	if response.StatusCode >= http.StatusBadRequest {
		return "", &failure{monitor.BadStatus, fmt.Sprintf("The answer has status %d.", response.StatusCode)}
	}
	if c.Body == "" {
		return "", nil
	}
	c.phase = reading
	body, done, err := unpacked(response.Body, response.Header.Get("Content-Encoding"))
	if err != nil {
		return "", err
	}
	defer done()
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	found, err := find(body, c.Body, response.Header.Get("Content-Type"), buffer[:])
	if err != nil {
		return "", err
	}
	if !found {
		return "", &failure{monitor.TextNotFound, "The expected text isn't in the answer."}
	}
	return "", nil
}

// handshake agrees on TLS and notes when the first of the certificates expires,
// also of one that isn't accepted.
func (c *check) handshake(conn net.Conn, a monitor.Address) (*tls.Conn, error) {
	c.phase = securing
	config := c.p.tls.Clone()
	config.ServerName = a.Host
	if c.http1 {
		config.NextProtos = []string{"http/1.1"}
	}
	secure := tls.Client(conn, config)
	err := secure.Handshake() //nolint:noctx // the connection's deadline is the check's, and ends with its context
	shown := secure.ConnectionState().PeerCertificates
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		shown = bad.UnverifiedCertificates
	}
	for _, certificate := range shown {
		if at := c.result.CertificateExpiry; at.IsZero() || certificate.NotAfter.Before(at) {
			c.result.CertificateExpiry = certificate.NotAfter
		}
	}
	return secure, err
}

// headReader reads an answer by HTTP/1.1. It is small: when all services hang, all
// checks have one. Bodies are read with a larger buffer that only those have that
// look for a text.
type headReader struct {
	limited  io.LimitedReader
	buffered *bufio.Reader
}

var headReaders = sync.Pool{New: func() any {
	r := &headReader{}
	r.buffered = bufio.NewReader(&r.limited)
	return r
}}

const bufferSize = 8 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// mostHeader bounds the headers of an answer, those of interim ones included.
const mostHeader = 64 << 10

// headers1 are those of every request by HTTP/1.1 but Host.
func headers1(agent string) string {
	return "\r\nUser-Agent: " + agent + "\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\nConnection: close\r\n\r\n"
}

// asked is what http.ReadResponse wants to know of the request.
var asked = &http.Request{Method: http.MethodGet}

// exchange1 speaks HTTP/1.1. A transport of net/http would do it with two
// goroutines, and share connections between checks under different rules.
func (c *check) exchange1(_ context.Context, conn net.Conn, a monitor.Address) (*http.Response, func(), error) {
	authority, target := split(a.URL)
	if _, err := io.WriteString(conn, "GET "+target+" HTTP/1.1\r\nHost: "+authority+c.p.headers); err != nil {
		return nil, nil, err
	}
	r := headReaders.Get().(*headReader)
	r.limited = io.LimitedReader{R: conn, N: mostHeader}
	r.buffered.Reset(&r.limited)
	done := func() {
		r.limited.R = nil
		headReaders.Put(r)
	}
	response, err := r.answer()
	if err != nil {
		done()
		return nil, nil, err
	}
	r.limited.N = mostRead
	return response, done, nil
}

// answer reads the head of the first answer that isn't an interim one.
func (r *headReader) answer() (*http.Response, error) {
	for {
		response, err := http.ReadResponse(r.buffered, asked)
		switch {
		case err != nil && r.limited.N <= 0:
			return nil, errHeader
		case err != nil:
			return nil, err
		case response.StatusCode == http.StatusSwitchingProtocols:
			return nil, &failure{monitor.Protocol, "The server switched to a protocol that wasn't asked for."}
		case response.StatusCode >= http.StatusOK:
			return response, nil
		}
	}
}

var errHeader = &failure{monitor.Protocol, fmt.Sprintf("The answer's headers are longer than %d KiB.", mostHeader>>10)}

// split cuts a URL as Address has it into authority and request target.
func split(url string) (authority, target string) {
	_, rest, _ := strings.Cut(url, "://")
	i := strings.IndexAny(rest, "/?")
	switch {
	case i < 0:
		return rest, "/"
	case rest[i] == '?':
		return rest[:i], "/" + rest[i:]
	}
	return rest[:i], rest[i:]
}

// connKey is where exchange2 leaves the connection that its transport is to use.
type connKey struct{}

// newTransport2 makes HTTP/2 connections out of TLS connections that are there.
func newTransport2() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // only so that the transport takes what the handshake agreed on
	protocols.SetHTTP2(true)
	return &http.Transport{
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: mostHeader,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return ctx.Value(connKey{}).(net.Conn), nil
		},
	}
}

// exchange2 speaks HTTP/2 on a connection that no other check can get at.
func (c *check) exchange2(ctx context.Context, conn net.Conn, a monitor.Address) (*http.Response, func(), error) {
	authority, _ := split(a.URL)
	if !strings.Contains(authority[strings.LastIndexByte(authority, ']')+1:], ":") {
		authority += ":443"
	}
	h2, err := c.p.h2.NewClientConn(context.WithValue(ctx, connKey{}, conn), "https", authority)
	if err != nil {
		return nil, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, http.NoBody)
	if err != nil {
		return nil, nil, errors.Join(err, h2.Close())
	}
	request.Header = http.Header{"User-Agent": {c.p.agent}, "Accept": {"*/*"}, "Accept-Encoding": {"gzip, deflate"}}
	response, err := h2.RoundTrip(request)
	if err != nil {
		return nil, nil, errors.Join(err, h2.Close())
	}
	return response, func() { _ = response.Body.Close(); _ = h2.Close() }, nil // the result is in already
}
