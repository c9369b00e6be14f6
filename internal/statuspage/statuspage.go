// Package statuspage serves the pages that accounts show to everybody: HTML that needs no
// script and sets no cookie, the same as JSON and Atom, and a badge. It knows what control lets
// everybody see and nothing else.
package statuspage

import (
	"context"
	"crypto/sha256"
	_ "embed" // the page's template and its styles
	"encoding/base64"
	"html/template"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/fault"
	"steward/internal/limit"
	"steward/internal/monitor"
)

// PerMinute is how many requests an address may send in a minute: many readers share one
// behind a proxy, and nobody finds slugs by trying them.
const PerMinute = 120

// Options are what the handler is made of.
type Options struct {
	// Find is what everybody may see of the page with a slug; NotFound when there is none.
	Find func(ctx context.Context, slug string) (monitor.PublicPage, error)
	// Address is whom a request comes from.
	Address func(*http.Request) string
	// Shared counts requests together with other servers; nil where there are none.
	Shared limit.Shared
	Logger *slog.Logger
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Pages is the handler of /status/.
type Pages struct {
	Options
	requests *limit.Limiter
	cache    *cache
	handler  http.Handler
}

// New makes a handler.
func New(o Options) *Pages {
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Pages{Options: o, requests: limit.New(limit.Options{Kind: "status", Limit: PerMinute, Shared: o.Shared, Now: o.Now})}
	p.cache = newCache(o.Find, o.Now)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status/{name}", p.page)
	mux.HandleFunc("GET /status/{name}/badge.svg", p.badge)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { p.say(w, http.StatusNotFound, "There is no such page.") })
	p.handler = mux
	return p
}

// Owns reports whether a request is for a status page.
func Owns(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/status/") }

//go:embed page.html
var pageText string

//go:embed style.css
var styleText string

// pageTemplate has the styles in its own text: they are a file of ours, as it is.
var pageTemplate = template.Must(template.New("page").Parse(strings.Replace(pageText, "STYLE", styleText, 1)))

// policy lets the page's own styles be, and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(styleText))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
}()

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if s := p.requests.Take(r.Context(), limit.AddressKey(p.Address(r))); !s.OK {
		h.Set("Retry-After", strconv.Itoa(s.After))
		p.say(w, http.StatusTooManyRequests, "Too many requests. Wait a minute.")
		return
	}
	p.handler.ServeHTTP(w, r)
}

// find answers for a page that isn't there, or can't be read, and is false then.
func (p *Pages) find(w http.ResponseWriter, r *http.Request, slug string) (monitor.PublicPage, bool) {
	page, err := p.cache.get(r.Context(), slug)
	switch {
	case err == nil:
		h := w.Header()
		h.Set("Cache-Control", "public, max-age="+strconv.Itoa(int(keep.Seconds())))
		h.Set("Last-Modified", page.At.Format(http.TimeFormat))
		return page, true
	case fault.IsKind(err, fault.NotFound):
		p.say(w, http.StatusNotFound, "There is no such page.")
	default:
		p.Logger.WarnContext(r.Context(), "a status page can't be read", "error", err)
		w.Header().Set("Retry-After", "60")
		p.say(w, http.StatusServiceUnavailable, "The page can't be shown now. Try again in a minute.")
	}
	return page, false
}

// say answers with one sentence.
func (p *Pages) say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
}

func (p *Pages) page(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	show := p.html
	if slug, ok := strings.CutSuffix(name, ".json"); ok {
		name, show = slug, p.json
	} else if slug, ok := strings.CutSuffix(name, ".atom"); ok {
		name, show = slug, p.atom
	}
	if page, ok := p.find(w, r, name); ok {
		show(w, r, page)
	}
}

func (p *Pages) html(w http.ResponseWriter, _ *http.Request, page monitor.PublicPage) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := pageTemplate.Execute(w, viewOf(page)); err != nil {
		p.Logger.Debug("write a status page", "error", err)
	}
}
