package api

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"html/template"
	"net/http"
	"net/url"
	"regexp"

	"steward/internal/account"
	"steward/internal/oauth"
)

//go:embed login.html
var loginText string

//go:embed login.css
var loginStyle string

var loginTemplate = template.Must(template.Must(template.New("login").Parse(loginText)).New("style").Parse(loginStyle))

// loginPage is what the template shows. Without a Label it says what went wrong.
type loginPage struct {
	Label, Destination, Action, CSRF, Problem string
	Scopes                                    []string
	// Step is the secret of a log-in whose password was right: a code is asked for.
	Step string
	// Console: it is steward's own pages that the user logs in to.
	Console bool
}

// scopePhrases say to people what a scope is.
var scopePhrases = map[string]string{
	"databases:read_only":  "see your databases, their backups and their passwords",
	"databases:read_write": "see, create, change and delete your databases and their backups",
	"account:read_only":    "see your account, its users, tokens and monitoring",
	"account:read_write":   "see and change your account, its users, tokens and monitoring",
	"events:read_only":     "see what happens in your account",
	"events:read_write":    "see what happens in your account, and mark it as seen",
	"operator:read_only":   "see all accounts and how the installation is, where you are one of its operators",
	"operator:read_write":  "see and change all accounts, where you are one of the installation's operators",
	"*":                    "do everything that you can",
}

// scopeTexts are the phrases for the document, without the one for everything.
func scopeTexts() map[string]string {
	texts := map[string]string{}
	for scope, text := range scopePhrases {
		if scope != "*" {
			texts[scope] = text
		}
	}
	return texts
}

func phrases(scopes account.Scopes) []string {
	if scopes.All {
		return []string{scopePhrases["*"]}
	}
	texts := make([]string, len(scopes.List))
	for i, s := range scopes.List {
		texts[i] = scopePhrases[s.String()]
	}
	return texts
}

// csrfCookie holds the page's token: who can't read it can't send the form.
const csrfCookie = "steward_csrf"

// showLogin shows the page of a request that can be answered.
func (a *API) showLogin(w http.ResponseWriter, r *http.Request, request *oauth.Request, status int, problem string) {
	a.showStep(w, r, request, status, problem, "")
}

// showStep is showLogin that asks for a code where there is a step.
func (a *API) showStep(w http.ResponseWriter, r *http.Request, request *oauth.Request, status int, problem, step string) {
	token := csrfToken(r)
	http.SetCookie(w, &http.Cookie{
		Name: csrfCookie, Value: token, Path: "/oauth", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: a.byTLS(r), MaxAge: 3600,
	})
	a.writePage(w, status, origin(request.Client.RedirectURI), loginPage{
		Label: request.Client.Label, Destination: request.Client.RedirectURI, Action: "/oauth/authorize?" + r.URL.RawQuery,
		CSRF: token, Problem: problem, Step: step, Scopes: phrases(request.Scopes), Console: request.Client.ID == account.ConsoleClient,
	})
}

// byTLS reports whether the browser came by TLS: to a proxy in front, by the console's address. The server itself speaks HTTP.
func (a *API) byTLS(r *http.Request) bool {
	u, err := url.Parse(a.ConsoleRedirect)
	return err == nil && u.Scheme == "https" && u.Host == r.Host
}

// csrfToken is the one that the browser has, so that pages in other tabs stay good, or a new one.
func csrfToken(r *http.Request) string {
	if cookie, err := r.Cookie(csrfCookie); err == nil && csrfForm.MatchString(cookie.Value) {
		return cookie.Value
	}
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return hex.EncodeToString(raw)
}

// csrfForm is what tokens look like.
var csrfForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// csrfHolds reports whether a form comes from a page that this server gave the
// same browser.
func csrfHolds(r *http.Request) bool {
	cookie, err := r.Cookie(csrfCookie)
	return err == nil && len(cookie.Value) == 64 && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(r.PostForm.Get("csrf"))) == 1
}

// showProblem tells a person what went wrong, where the client can't be told.
func (a *API) showProblem(w http.ResponseWriter, status int, problem string) {
	a.writePage(w, status, "", loginPage{Problem: problem})
}

// writePage sends a page that nobody may frame, keep or add anything to. to is
// where its form may lead besides here: browsers hold redirects to that, too.
func (a *API) writePage(w http.ResponseWriter, status int, to string, page loginPage) {
	sum := sha256.Sum256([]byte(loginStyle))
	h := w.Header()
	h.Del("Access-Control-Allow-Origin")
	h.Del("Access-Control-Expose-Headers")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'; form-action 'self' "+to+"; frame-ancestors 'none'; base-uri 'none'")
	w.WriteHeader(status)
	if err := loginTemplate.ExecuteTemplate(w, "login", page); err != nil {
		a.Logger.Warn("write log-in page", "error", err)
	}
}

// origin is a redirect URI as a Content-Security-Policy names it.
func origin(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if u.Scheme == "https" || u.Scheme == "http" {
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + ":"
}
