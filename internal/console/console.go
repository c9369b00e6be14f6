// Package console serves the web console: pages that ask the public API and nothing else.
// It logs browsers in as an OAuth client of the API, keeps their tokens away from scripts,
// and hands what the pages ask to the API with the token of the browser's session.
package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Options are what a console is made of.
type Options struct {
	// API answers /v4 and /oauth as it does to everybody.
	API http.Handler
	// Origin is where browsers reach the console, such as https://steward.example.org.
	Origin string
	// ClientID is the console's own as an OAuth client.
	ClientID string
	Sessions Sessions
	Users    Users
	Logger   *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Users answers what only a password can.
type Users interface {
	// Confirm is nil when the password is that of the access token's user, and a *Refusal
	// when it isn't.
	Confirm(ctx context.Context, access, password, address string) error
	// SetFirst sets the password of the user whose link has the secret. A *Refusal says
	// what is wrong with either.
	SetFirst(ctx context.Context, secret, password, address string) error
}

// Refusal is an error that the browser is told.
type Refusal struct {
	Status        int
	Field, Reason string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Reason }

// Console is the handler of /console.
type Console struct {
	Options
	origin  *url.URL
	handler http.Handler
	files   *files
}

// Redirect is where the API sends users back to who log in at an origin.
func Redirect(origin string) string { return origin + "/console/callback" }

// New makes a console.
func New(o Options) (*Console, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	origin, err := url.Parse(o.Origin)
	if err != nil {
		return nil, err
	}
	files, err := readFiles()
	if err != nil {
		return nil, err
	}
	c := &Console{Options: o, origin: origin, files: files}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/console/", http.StatusSeeOther) })
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/console/", http.StatusSeeOther) })
	mux.HandleFunc("GET /console/", c.page)
	mux.HandleFunc("GET /console/assets/{name}", c.asset)
	mux.HandleFunc("GET /console/login", c.login)
	mux.HandleFunc("GET /console/callback", c.callback)
	mux.HandleFunc("POST /console/logout", c.logout)
	mux.HandleFunc("POST /console/confirm", c.confirm)
	mux.HandleFunc("POST /console/first", c.first)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		mux.HandleFunc(method+" /console/v4/", c.forward)
	}
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, &Refusal{Status: http.StatusForbidden, Reason: "The request was sent from another site."})
	}))
	c.handler = c.guard(crossOrigin.Handler(mux))
	return c, nil
}

// Owns reports whether a request is the console's.
func Owns(r *http.Request) bool {
	return r.URL.Path == "/console" || strings.HasPrefix(r.URL.Path, "/console/") || r.URL.Path == "/" && r.Method == http.MethodGet
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// policy is what pages may do: run the console's own script, ask the console's own
// address, and be framed by nobody.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard sets what every answer has, and lets in only who uses the console's own name:
// another one may be a stranger's that leads here.
func (c *Console) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		if c.secure() {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if r.Host == c.origin.Host {
			next.ServeHTTP(w, r)
			return
		}
		if isLoopback(r.Host) && isLoopback(c.origin.Host) && r.Method == http.MethodGet {
			http.Redirect(w, r, c.Origin+"/console/", http.StatusSeeOther)
			return
		}
		c.notice(w, http.StatusMisdirectedRequest, notice{
			Title: "Another address", Text: "The console of this server is at the address below. Whoever runs the server can change it with console.url.",
			Link: c.Origin + "/console/", LinkText: c.Origin + "/console/",
		})
	})
}

func isLoopback(host string) bool {
	u := url.URL{Host: host}
	return u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
}

// secure reports whether browsers reach the console by TLS.
func (c *Console) secure() bool { return c.origin.Scheme == "https" }
