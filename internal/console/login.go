package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// patience is how long a person may take to log in.
const patience = 15 * time.Minute

// mostBegun is how many log-ins a browser may have begun: each tab whose session has ended begins one.
const mostBegun = 8

// begunCookie is the name of the cookie of the log-in with that state.
func begunCookie(state string) string { return loginCookie + "-" + state[:min(len(state), 16)] }

// login sends the browser to the API's log-in page. What belongs to the answer is in a
// cookie: who hasn't begun here can't end here. Each log-in has one of its own, so that it can
// be ended in whichever tab it was begun.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	var begun []string
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, c.cookieName(loginCookie+"-")) {
			begun = append(begun, strings.TrimPrefix(cookie.Name, c.cookieName("")))
		}
	}
	if len(begun) >= mostBegun {
		for _, name := range begun {
			c.dropCookie(w, name)
		}
	}
	state, verifier := newSecret(), newSecret()
	c.setCookie(w, begunCookie(state), state+"."+verifier+"."+base64.RawURLEncoding.EncodeToString([]byte(own(r.URL.Query().Get("to")))), patience)
	challenge := sha256.Sum256([]byte(verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {c.ClientID}, "redirect_uri": {Redirect(c.Origin)}, "scope": {"*"}, "state": {state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	http.Redirect(w, r, "/oauth/authorize?"+q.Encode(), http.StatusSeeOther)
}

// own is a page of the console, and never another site's.
func own(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || strings.ContainsAny(to, "\\\r\n") {
		return "/console/"
	}
	if clean := path.Clean(u.Path); clean != strings.TrimSuffix(u.Path, "/") || !strings.HasPrefix(clean, "/console/") || strings.HasPrefix(clean, "/console/log") {
		return "/console/"
	}
	return u.EscapedPath()
}

// callback gets the code that the log-in page sends, and begins a session.
func (c *Console) callback(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	cookie, err := r.Cookie(c.cookieName(begunCookie(q.Get("state"))))
	if err == nil {
		c.dropCookie(w, begunCookie(q.Get("state")))
	}
	again := notice{Title: "You aren't logged in", Link: "/console/login", LinkText: "Log in"}
	parts := []string{"", "", ""}
	if err == nil {
		parts = append(strings.SplitN(cookie.Value, ".", 3), parts...)
	}
	state, verifier, to := parts[0], parts[1], parts[2]
	switch {
	case len(state) != 64 || subtle.ConstantTimeCompare([]byte(state), []byte(q.Get("state"))) != 1:
		again.Text = "The log-in wasn't begun in this browser, or took too long. Try again."
		c.notice(w, http.StatusForbidden, again)
		return
	case q.Get("error") != "":
		again.Text = "The log-in was broken off."
		c.notice(w, http.StatusForbidden, again)
		return
	}
	t, err := c.exchange(r.Context(), r, map[string]string{
		"grant_type": "authorization_code", "code": q.Get("code"), "redirect_uri": Redirect(c.Origin), "code_verifier": verifier,
	})
	if err == nil {
		err = c.begin(w, r, t)
	}
	if err != nil {
		c.Logger.WarnContext(r.Context(), "log-in to the console failed", "error", err)
		again.Text = "The server couldn't finish the log-in. Try again."
		status := http.StatusBadGateway
		if errors.Is(err, ErrAway) || errors.Is(err, ErrInDoubt) {
			status = http.StatusServiceUnavailable // whatever was written, another log-in does no harm
			w.Header().Set("Retry-After", awaySeconds)
		}
		c.notice(w, status, again)
		return
	}
	page, _ := base64.RawURLEncoding.DecodeString(to) // what isn't ours is the first page
	http.Redirect(w, r, own(string(page)), http.StatusSeeOther)
}

// begin makes a session with a cookie of its own. One that the browser had before ends.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, t tokens) error {
	if old, err := c.session(r); err == nil {
		c.end(r.Context(), old)
	}
	secret := newSecret()
	key, hash, err := keyOf(secret)
	if err != nil {
		return err
	}
	sealed, err := seal(key, hash, t)
	if err != nil {
		return err
	}
	if err := c.Sessions.Open(r.Context(), Session{Hash: hash, Sealed: sealed}, t.Access); err != nil {
		return err
	}
	c.setCookie(w, sessionCookie, secret, Lifetime)
	return nil
}

// logout ends the session and all its tokens.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	s, err := c.session(r)
	if err == nil {
		c.end(r.Context(), s)
	}
	c.dropCookie(w, sessionCookie)
	w.Header().Set("Clear-Site-Data", `"cache"`)
	writeJSON(w, http.StatusOK, struct{}{})
}

// end revokes a session's tokens and forgets it, whether the browser waits or not.
func (c *Console) end(ctx context.Context, s live) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), renewing)
	defer cancel()
	if answer, err := c.post(ctx, "/oauth/revoke", nil, map[string]string{"token": s.tokens.Refresh}); err != nil || answer.status != http.StatusOK {
		c.Logger.WarnContext(ctx, "revoke a console's token", "error", err, "status", answer.status)
	}
	if err := c.Sessions.End(ctx, s.Hash); err != nil {
		c.Logger.WarnContext(ctx, "end a console's session", "error", err)
	}
}

// exchange asks the API for tokens. A *Refusal says that it has none for this.
func (c *Console) exchange(ctx context.Context, from *http.Request, form map[string]string) (tokens, error) {
	answer, err := c.post(ctx, "/oauth/token", from, form)
	if err != nil {
		return tokens{}, err
	}
	var body struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Seconds int64  `json:"expires_in"`
		Error   string `json:"error"`
	}
	if err := json.Unmarshal(answer.body.Bytes(), &body); err != nil {
		return tokens{}, fmt.Errorf("read the tokens of status %d: %w", answer.status, err)
	}
	switch {
	case answer.status == http.StatusBadRequest || answer.status == http.StatusUnauthorized:
		return tokens{}, &Refusal{Status: answer.status, Reason: body.Error}
	case answer.status == http.StatusServiceUnavailable:
		return tokens{}, fmt.Errorf("exchange tokens: %w", ErrAway)
	case answer.status == http.StatusGatewayTimeout:
		return tokens{}, fmt.Errorf("exchange tokens: %w", ErrInDoubt)
	case answer.status != http.StatusOK || body.Access == "" || body.Refresh == "":
		return tokens{}, fmt.Errorf("exchange tokens: status %d %s", answer.status, body.Error)
	}
	return tokens{body.Access, body.Refresh, c.Now().Add(time.Duration(body.Seconds) * time.Second)}, nil
}

// captured is an answer of the API that is kept.
type captured struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *captured) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *captured) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *captured) Write(b []byte) (int, error) { return a.body.Write(b) }

// post sends the API a form in the console's own name, because of the request from, or of
// none's.
func (c *Console) post(ctx context.Context, place string, from *http.Request, form map[string]string) (*captured, error) {
	values := url.Values{"client_id": {c.ClientID}}
	for name, value := range form {
		values.Set(name, value)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Origin+place, strings.NewReader(values.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = "127.0.0.1:0"
	if from != nil {
		r.RemoteAddr = from.RemoteAddr
		r.Header["X-Forwarded-For"] = from.Header.Values("X-Forwarded-For")
	}
	answer := &captured{header: http.Header{}, status: http.StatusOK}
	c.API.ServeHTTP(answer, r)
	return answer, ctx.Err()
}

// confirm takes the password again, before what only its owner may do.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Password string `json:"password"`
	}
	s, err := c.session(r)
	if err == nil {
		s, err = c.renewed(r.Context(), s, "")
	}
	if err == nil {
		err = decode(w, r, &in)
	}
	if err == nil {
		err = c.Users.Confirm(r.Context(), s.tokens.Access, in.Password, addressOf(r))
	}
	if err == nil {
		err = c.Sessions.Confirm(r.Context(), s.Hash)
	}
	c.answer(w, r, err)
}

// first sets a user's password by a link that works once.
func (c *Console) first(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Link     string `json:"link"`
		Password string `json:"password"`
	}
	err := decode(w, r, &in)
	if err == nil {
		err = c.Users.SetFirst(r.Context(), in.Link, in.Password, addressOf(r))
	}
	c.answer(w, r, err)
}

// addressOf is whom a request comes from.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// mostForm bounds what the console's own forms send.
const mostForm = 64 << 10

func decode(w http.ResponseWriter, r *http.Request, into any) error {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostForm)).Decode(into); err != nil {
		return &Refusal{Status: http.StatusBadRequest, Reason: "The request can't be read."}
	}
	return nil
}

// awaySeconds is what the API says, too, of when another request is worth it.
const awaySeconds = "5"

// answer writes {} or what was wrong. While the store is away it says so with the statuses that the API has for that.
func (c *Console) answer(w http.ResponseWriter, r *http.Request, err error) {
	var refused *Refusal
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, struct{}{})
	case errors.As(err, &refused):
		refuse(w, refused)
	case errors.Is(err, ErrNoSession):
		refuse(w, loggedOut)
	case r.Context().Err() != nil: // nobody reads it
	case errors.Is(err, ErrInDoubt):
		c.Logger.WarnContext(r.Context(), "the store is away from the console", "path", r.URL.Path, "error", err)
		refuse(w, &Refusal{Status: http.StatusGatewayTimeout, Reason: "The server's own store went away in the middle. Look whether this was done before you try again."})
	case errors.Is(err, ErrAway):
		c.Logger.WarnContext(r.Context(), "the store is away from the console", "path", r.URL.Path, "error", err)
		w.Header().Set("Retry-After", awaySeconds)
		refuse(w, &Refusal{Status: http.StatusServiceUnavailable, Reason: "The server's own store doesn't answer. Try again in some seconds."})
	default:
		c.Logger.ErrorContext(r.Context(), "console's request failed", "path", r.URL.Path, "error", err)
		refuse(w, &Refusal{Status: http.StatusInternalServerError, Reason: "The server couldn't do it just now. Try again."})
	}
}

var loggedOut = &Refusal{Status: http.StatusUnauthorized, Reason: "You aren't logged in."}

// problem is an error as the API writes it.
type problem struct {
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
}

func refuse(w http.ResponseWriter, r *Refusal) {
	writeJSON(w, r.Status, map[string][]problem{"errors": {{r.Field, r.Reason}}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the browser has gone: nobody to tell
}
