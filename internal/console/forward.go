package console

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
)

// mostBody is what the API takes, and a byte: it says itself what is too much.
const mostBody = 1<<20 + 1

// Headers between the pages and the console.
const (
	// confirmHeader tells a page to ask for the password, and to send the request again.
	confirmHeader = "X-Console-Confirm"
	// backgroundHeader is of requests that nobody asked for: they keep no session alive.
	backgroundHeader = "X-Console-Background"
)

// used is how exactly it is known when a session was last used.
const used = time.Minute

// forward hands a page's request to the API with the session's token.
func (c *Console) forward(w http.ResponseWriter, r *http.Request) {
	asked := strings.TrimPrefix(r.URL.Path, "/console")
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case path.Clean(asked) != asked || !strings.HasPrefix(asked, "/v4/"):
		refuse(w, &Refusal{Status: http.StatusNotFound, Reason: "Not found"})
		return
	case site != "" && site != "same-origin":
		refuse(w, &Refusal{Status: http.StatusForbidden, Reason: "The request was sent from another site."})
		return
	}
	s, err := c.session(r)
	if err == nil && confirms(r.Method, asked) && !c.Now().Before(s.Confirmed.Add(Confirmed)) {
		w.Header().Set(confirmHeader, "password")
		err = &Refusal{Status: http.StatusForbidden, Reason: "Give your password again first."}
	}
	if err == nil {
		s, err = c.renewed(r.Context(), s, "")
	}
	var body []byte
	if err == nil {
		if body, err = io.ReadAll(io.LimitReader(r.Body, mostBody)); err != nil {
			err = &Refusal{Status: http.StatusBadRequest, Reason: "The request can't be read."}
		}
	}
	if err == nil && r.Header.Get(backgroundHeader) == "" && c.Now().Sub(s.Used) > used {
		err = c.Sessions.Use(r.Context(), s.Hash)
	}
	if err == nil {
		err = c.ask(w, r, s, asked, body)
	}
	if err != nil {
		c.answer(w, r, err) // with no word of the cookie: by now another tab may have logged in, and the browser have its cookie
	}
}

// ask asks the API, and once more with another token when it refused the first. What
// returns an error has written nothing.
func (c *Console) ask(w http.ResponseWriter, r *http.Request, s live, asked string, body []byte) error {
	for range 2 {
		out := c.outgoing(r, asked, s.tokens.Access, body)
		answer := &passing{ResponseWriter: w, header: http.Header{}}
		c.API.ServeHTTP(answer, out)
		if !answer.refused {
			answer.WriteHeader(http.StatusOK)
			return nil
		}
		var err error
		if s, err = c.renewed(r.Context(), s, s.tokens.Access); err != nil {
			return err
		}
	}
	return ErrNoSession
}

// passed are the headers that the API gets of the browser.
var passed = []string{"Accept", "Accept-Encoding", "Content-Type", "If-None-Match", "Last-Event-Id", "X-Filter", "X-Forwarded-For", "User-Agent"}

func (c *Console) outgoing(r *http.Request, asked, access string, body []byte) *http.Request {
	out := r.Clone(r.Context())
	out.URL = &url.URL{Path: asked, RawQuery: r.URL.RawQuery}
	out.RequestURI = out.URL.RequestURI()
	out.Header = http.Header{"Authorization": {"Bearer " + access}}
	for _, name := range passed {
		if values := r.Header.Values(name); len(values) > 0 {
			out.Header[name] = values
		}
	}
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, int64(len(body)), nil
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	return out
}

// passing hands an answer on, but for one that refuses the token.
type passing struct {
	http.ResponseWriter
	header  http.Header
	refused bool
	begun   bool
}

// Header implements http.ResponseWriter.
func (p *passing) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *passing) WriteHeader(status int) {
	if p.begun {
		return
	}
	p.begun = true
	if status == http.StatusUnauthorized {
		p.refused = true
		return
	}
	p.pass()
	p.ResponseWriter.WriteHeader(status)
}

// pass hands the API's headers on, but for those that the console has its own of.
func (p *passing) pass() {
	maps.DeleteFunc(p.header, func(name string, _ []string) bool {
		return strings.HasPrefix(name, "Access-Control-") || name == "Cache-Control" || name == "Set-Cookie"
	})
	maps.Copy(p.ResponseWriter.Header(), p.header)
}

// Hijack implements http.Hijacker: who takes the connection over writes the headers itself, all of them.
func (p *passing) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(p.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	p.begun = true
	p.pass()
	maps.Copy(p.header, p.ResponseWriter.Header())
	return conn, rw, nil
}

// Write implements http.ResponseWriter.
func (p *passing) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.refused {
		return len(b), nil
	}
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController, which sends what was written and sets deadlines.
func (p *passing) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// guarded are requests that show or make a secret, give somebody rights, or destroy what
// no other request brings back.
var guarded = regexp.MustCompile(`^(` + strings.Join([]string{
	`GET /v4/databases/[a-z]+/instances/[0-9]+/credentials`,
	`POST /v4/databases/[a-z]+/instances/[0-9]+/credentials/reset`,
	`POST /v4/databases/[a-z]+/instances/[0-9]+/(backups/[0-9]+/restore|restore|restore/undo)`,
	`POST /v4/databases/[a-z]+/instances/[0-9]+/users(/.*)?`,
	`PUT /v4/databases/[a-z]+/instances/[0-9]+/users/.*`,
	`POST /v4/profile/(tokens|tfa-enable|tfa-enable-confirm|tfa-disable)`,
	`(POST|PUT) /v4/account/oauth-clients(/.*)?`,
	`(POST|PUT) /v4/account/users(/.*)?`,
	`(POST|PUT) /v4/monitor/alert-channels(/[0-9]+)?`,
	`POST /v4/monitor/services/[^/]+/token`,
	`POST /v4/managed/credentials/[0-9]+/revoke`,
	`(POST|PUT) /v4/operator/accounts(/.*)?`,
	`DELETE /v4/.*`,
}, "|") + `)$`)

// harmless destroys nothing that lasts.
var harmless = regexp.MustCompile(`^DELETE /v4/databases/[a-z]+/instances/[0-9]+/queries/running/[^/]+$`)

// confirms reports whether a request needs the password of the last minutes.
func confirms(method, path string) bool {
	request := method + " " + path
	return guarded.MatchString(request) && !harmless.MatchString(request)
}
