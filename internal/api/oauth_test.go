package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"steward/internal/api"
	"steward/internal/control"
)

const (
	password = "correct horse battery"
	callback = "https://app.example.org/callback?tenant=7"
)

// oauthBench is a bench that browsers and programs reach over HTTP. admin and
// limited can log in.
type oauthBench struct {
	*bench
	url string
}

func newOAuthBench(t *testing.T, change ...func(*api.Options)) *oauthBench {
	t.Helper()
	return overHTTP(t, newBench(t, change...))
}

func overHTTP(t *testing.T, served *bench) *oauthBench {
	t.Helper()
	b := &oauthBench{bench: served}
	server := httptest.NewServer(b.handler)
	t.Cleanup(server.Close)
	b.url = server.URL
	logins := control.New(control.Deps{Store: b.store, PasswordCost: cheap}).Logins
	for _, name := range []string{"admin", "limited"} {
		user, err := b.store.User(t.Context(), b.account, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := logins.SetPassword(t.Context(), user, password); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

type clientAnswer struct {
	ID, Label, Secret, Status string
	RedirectURI               string `json:"redirect_uri"`
	Public                    bool
}

func (b *oauthBench) register(token, body string) clientAnswer {
	b.t.Helper()
	r := b.send("POST", "/v4/account/oauth-clients", token, body)
	var c clientAnswer
	if err := json.Unmarshal([]byte(r.body), &c); err != nil || r.StatusCode != 200 {
		b.t.Fatalf("register: %d %s", r.StatusCode, r.body)
	}
	return c
}

func (b *oauthBench) confidential() clientAnswer {
	return b.register(b.full, `{"label":"Shop","redirect_uri":"`+callback+`"}`)
}

// config is the foreign client library's.
func (b *oauthBench) config(c clientAnswer, scopes ...string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: c.ID, ClientSecret: c.Secret, RedirectURL: c.RedirectURI, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: b.url + "/oauth/authorize", TokenURL: b.url + "/oauth/token"},
	}
}

// browser keeps cookies and stops at redirects.
func browser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

type page struct {
	*http.Response
	body string
}

func get(t testing.TB, c *http.Client, address string) page {
	t.Helper()
	return do(t, c, http.MethodGet, address, nil)
}

func do(t testing.TB, c *http.Client, method, address string, form url.Values, headers ...string) page {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return page{r, string(body)}
}

var csrfField = regexp.MustCompile(`name="csrf" value="([0-9a-f]{64})"`)

// login answers the page at address, in a browser of its own.
func (b *oauthBench) login(address, username, password, answer string) page {
	b.t.Helper()
	c := browser(b.t)
	shown := get(b.t, c, address)
	field := csrfField.FindStringSubmatch(shown.body)
	if shown.StatusCode != 200 || field == nil {
		b.t.Fatalf("log-in page: %d %s", shown.StatusCode, shown.body)
	}
	return do(b.t, c, http.MethodPost, address, url.Values{"csrf": {field[1]}, "username": {username}, "password": {password}, "answer": {answer}})
}

// code is what the user's consent sends to the client.
func (b *oauthBench) code(address, username string) string {
	b.t.Helper()
	r := b.login(address, username, password, "allow")
	to, err := r.Location()
	if err != nil || r.StatusCode != http.StatusSeeOther || len(to.Query().Get("code")) != 64 {
		b.t.Fatalf("consent: %d %v %s", r.StatusCode, r.Header, r.body)
	}
	return to.Query().Get("code")
}

// refusal is the error code that a foreign client library found.
func refusal(err error) string {
	if found, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return found.ErrorCode
	}
	return ""
}

// TestCodeFlow: golang.org/x/oauth2 gets a token by code and PKCE, uses it,
// refreshes it, and an old refresh token ends the whole family.
func TestCodeFlow(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.confidential()
	config := b.config(c, "databases:read_only", "events:read_only")
	verifier := oauth2.GenerateVerifier()
	r := b.login(config.AuthCodeURL("state-of-the-client", oauth2.S256ChallengeOption(verifier)), "admin", password, "allow")
	to, err := r.Location()
	if err != nil {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	if q := to.Query(); to.Host != "app.example.org" || q.Get("tenant") != "7" || q.Get("state") != "state-of-the-client" {
		t.Fatalf("sent to %s", to)
	}
	token, err := config.Exchange(t.Context(), to.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	const scopes = "databases:read_only events:read_only"
	if token.Extra("scope") != scopes || token.Extra("scopes") != scopes || token.TokenType != "bearer" || time.Until(token.Expiry) < time.Hour {
		t.Errorf("%+v, scope %q, scopes %q", token, token.Extra("scope"), token.Extra("scopes"))
	}
	if r := b.send("GET", "/v4/databases/instances", token.AccessToken, ""); r.StatusCode != 200 || r.Header.Get("X-OAuth-Scopes") != scopes {
		t.Errorf("with the token: %d %q", r.StatusCode, r.Header.Get("X-OAuth-Scopes"))
	}
	if r := b.send("POST", "/v4/databases/postgresql/instances", token.AccessToken, goodCreate); r.StatusCode != 401 {
		t.Errorf("beyond its scopes: %d", r.StatusCode)
	}
	if r := b.send("GET", "/v4/profile/tokens", b.full, ""); strings.Contains(r.body, "Shop") {
		t.Errorf("an application's token among the personal ones: %s", r.body)
	}
	if r := b.send("GET", "/v4/profile/apps", b.full, ""); !strings.Contains(r.body, `"label":"Shop"`) || !strings.Contains(r.body, scopes) {
		t.Errorf("the user's applications: %s", r.body)
	}

	expired := *token
	expired.Expiry = time.Now().Add(-time.Hour)
	fresh, err := config.TokenSource(t.Context(), &expired).Token()
	if err != nil {
		t.Fatal(err)
	}
	if fresh.RefreshToken == token.RefreshToken || fresh.AccessToken == token.AccessToken || fresh.Extra("scopes") != scopes {
		t.Error("the refresh didn't rotate")
	}
	if r := b.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != 401 {
		t.Errorf("the access token before the refresh: %d", r.StatusCode)
	}
	if r := b.send("GET", "/v4/profile", fresh.AccessToken, ""); r.StatusCode != 200 {
		t.Errorf("the one after it: %d", r.StatusCode)
	}
	if _, err := config.TokenSource(t.Context(), &expired).Token(); refusal(err) != "invalid_grant" {
		t.Errorf("an old refresh token: %v", err)
	}
	if r := b.send("GET", "/v4/profile", fresh.AccessToken, ""); r.StatusCode != 401 {
		t.Errorf("after an old refresh token was used: %d", r.StatusCode)
	}
	fresh.Expiry = time.Now().Add(-time.Hour)
	if _, err := config.TokenSource(t.Context(), fresh).Token(); refusal(err) != "invalid_grant" {
		t.Errorf("the newest refresh token of a family that ended: %v", err)
	}
}

// TestClassicExchange: existing clients send scopes, and leave out state,
// grant_type and redirect_uri.
func TestClassicExchange(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.confidential()
	address := b.url + "/oauth/authorize?" + url.Values{
		"client_id": {c.ID}, "response_type": {"code"}, "scopes": {"account:read_only,databases:read_write"}, "redirect_uri": {callback},
	}.Encode()
	code := b.code(address, "admin")
	exchange := func() page {
		return do(t, http.DefaultClient, http.MethodPost, b.url+"/oauth/token", url.Values{"client_id": {c.ID}, "client_secret": {c.Secret}, "code": {code}})
	}
	r := exchange()
	var token struct {
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
		Scope        string
		Scopes       string
		ExpiresIn    int `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(r.body), &token); err != nil || r.StatusCode != 200 || r.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v %s", r.StatusCode, r.Header, r.body)
	}
	if token.Scopes != "account:read_only databases:read_write" || token.Scope != token.Scopes || token.ExpiresIn < 7100 || token.RefreshToken == "" {
		t.Errorf("%+v", token)
	}
	if r := b.send("GET", "/v4/account/users", token.AccessToken, ""); r.StatusCode != 200 {
		t.Errorf("with the token: %d", r.StatusCode)
	}
	if r := exchange(); r.StatusCode != 400 || !strings.Contains(r.body, `"invalid_grant"`) || !strings.Contains(r.body, `"reason"`) {
		t.Errorf("the code again: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/account/users", token.AccessToken, ""); r.StatusCode != 401 {
		t.Errorf("after its code was used twice: %d", r.StatusCode)
	}
}

func TestPKCE(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.register(b.full, `{"label":"Native","redirect_uri":"http://127.0.0.1:7777/cb","public":true}`)
	if c.Secret != "" {
		t.Error("a public client with a secret")
	}
	config := b.config(c, "databases:read_only")
	config.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	to, err := b.login(config.AuthCodeURL("some-state"), "admin", password, "allow").Location()
	if err != nil || to.Query().Get("error") != "invalid_request" {
		t.Errorf("a public client without a challenge: %v %v", to, err)
	}
	plain := config.AuthCodeURL("some-state", oauth2.SetAuthURLParam("code_challenge", strings.Repeat("p", 43)), oauth2.SetAuthURLParam("code_challenge_method", "plain"))
	if to, err := b.login(plain, "admin", password, "allow").Location(); err != nil || to.Query().Get("error") != "invalid_request" {
		t.Errorf("a challenge in plain: %v %v", to, err)
	}
	verifier := oauth2.GenerateVerifier()
	code := b.code(config.AuthCodeURL("some-state", oauth2.S256ChallengeOption(verifier)), "admin")
	for name, options := range map[string][]oauth2.AuthCodeOption{"another verifier": {oauth2.VerifierOption(oauth2.GenerateVerifier())}, "no verifier": nil} {
		if _, err := config.Exchange(t.Context(), code, options...); refusal(err) != "invalid_grant" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := config.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err != nil {
		t.Errorf("the verifier: %v", err)
	}
	if _, err := (&clientcredentials.Config{ClientID: c.ID, TokenURL: b.url + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams}).Token(t.Context()); err == nil {
		t.Error("a public client got a token by its id alone")
	}
}

// TestClientCredentials: a client by itself is its owner, and can do no more than
// the token that it was registered with.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	r := b.send("POST", "/v4/profile/tokens", b.full, `{"label":"small","scopes":"account:read_write databases:read_only","expiry":"`+time.Now().Add(30*time.Minute).UTC().Format("2006-01-02T15:04:05")+`"}`)
	var small struct{ Token string }
	if err := json.Unmarshal([]byte(r.body), &small); err != nil {
		t.Fatal(r.body)
	}
	c := b.register(small.Token, `{"label":"Robot","redirect_uri":"`+callback+`"}`)
	credentials := func(scopes ...string) (*oauth2.Token, error) {
		return (&clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: b.url + "/oauth/token", Scopes: scopes}).Token(t.Context())
	}
	token, err := credentials("databases:read_only")
	if err != nil {
		t.Fatal(err)
	}
	if time.Until(token.Expiry) > 31*time.Minute {
		t.Errorf("it lasts until %s, longer than the token that the client was registered with", token.Expiry)
	}
	if r := b.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != 200 || !strings.Contains(r.body, `"username":"admin"`) {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for _, scopes := range []string{"*", "databases:read_write", "events:read_only"} {
		if _, err := credentials(scopes); refusal(err) != "invalid_scope" {
			t.Errorf("%s: %v", scopes, err)
		}
	}
	if _, err = credentials(); refusal(err) != "invalid_scope" {
		t.Errorf("without scopes: %v", err)
	}
	one := "/v4/account/oauth-clients/" + c.ID
	r = b.send("POST", "/v4/profile/tokens", b.full, `{"label":"sooner","scopes":"*","expiry":"`+time.Now().Add(10*time.Minute).UTC().Format("2006-01-02T15:04:05")+`"}`)
	var sooner struct{ Token string }
	if err := json.Unmarshal([]byte(r.body), &sooner); err != nil {
		t.Fatal(r.body)
	}
	for name, weak := range map[string]string{"ends sooner": sooner.Token, "has a smaller scope": b.restrictedTo("account:read_write")} {
		if r := b.send("POST", one+"/reset-secret", weak, ""); r.StatusCode != 401 {
			t.Errorf("a token that %s resets the secret: %d", name, r.StatusCode)
		}
	}
	r = b.send("POST", one+"/reset-secret", b.full, "")
	var reset clientAnswer
	if err := json.Unmarshal([]byte(r.body), &reset); err != nil || len(reset.Secret) != 64 || reset.Secret == c.Secret {
		t.Fatalf("reset: %d %s", r.StatusCode, r.body)
	}
	if _, err := credentials("databases:read_only"); refusal(err) != "invalid_client" {
		t.Errorf("the old secret: %v", err)
	}
	c.Secret = reset.Secret
	if token, err = credentials("databases:read_only"); err != nil {
		t.Errorf("the new secret: %v", err)
	}
	if r := b.send("DELETE", one, b.full, ""); r.StatusCode != 200 {
		t.Errorf("delete: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != 401 {
		t.Errorf("a deleted client's token: %d", r.StatusCode)
	}
}

// restrictedTo is a token of admin with these scopes.
func (b *bench) restrictedTo(scopes string) string {
	b.t.Helper()
	r := b.send("POST", "/v4/profile/tokens", b.full, `{"label":"weak","scopes":"`+scopes+`"}`)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(r.body), &made); err != nil || made.Token == "" {
		b.t.Fatal(r.body)
	}
	return made.Token
}

// TestClients: the shape that existing clients know, and who sees what.
func TestClients(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.confidential()
	one := "/v4/account/oauth-clients/" + c.ID
	r := b.send("GET", one, b.full, "")
	want := `{"id":"` + c.ID + `","label":"Shop","redirect_uri":"` + callback + `","public":false,"status":"active","secret":"<REDACTED>","thumbnail_url":null}` + "\n"
	if r.body != want || len(c.Secret) != 64 {
		t.Errorf("%s, want %s", r.body, want)
	}
	if r := b.send("PUT", one, b.full, `{"label":"Store","status":"suspended","id":"x","public":true}`); r.StatusCode != 200 || !strings.Contains(r.body, `"label":"Store"`) || !strings.Contains(r.body, `"public":false`) {
		t.Errorf("update: %d %s", r.StatusCode, r.body)
	}
	mine := b.register(b.restricted, `{"label":"Mine","redirect_uri":"org.example.app:/cb"}`)
	if r := b.send("GET", "/v4/account/oauth-clients", b.restricted, ""); !strings.Contains(r.body, mine.ID) || strings.Contains(r.body, c.ID) {
		t.Errorf("a restricted user sees more than its own: %s", r.body)
	}
	for _, request := range []string{"GET ", "PUT ", "DELETE ", "POST /reset-secret"} {
		method, path, _ := strings.Cut(request, " ")
		if r := b.send(method, one+path, b.restricted, ""); r.StatusCode != 404 {
			t.Errorf("%s of another's by a restricted user: %d %s", request, r.StatusCode, r.body)
		}
	}
	if r := b.send("POST", "/v4/account/oauth-clients/"+mine.ID+"/reset-secret", b.full, ""); r.StatusCode != 403 {
		t.Errorf("another user's secret: %d %s", r.StatusCode, r.body)
	}
	r = b.send("POST", "/v4/account/oauth-clients", b.full, `{"public":"yes"}`)
	if r.StatusCode != 400 || len(r.faults()) != 3 {
		t.Errorf("all faults at once: %d %v", r.StatusCode, r.faults())
	}
	for _, uri := range []string{
		"", "/callback", "http://example.org/cb", "https://example.org/cb#part", "https://user@example.org/cb", "javascript:alert(1)", "data:text/html,x",
		"https:///cb", "http://localhost.example.org/cb", "https://example.org/ cb", "https://ex\u00e4mple.org/",
	} {
		body, err := json.Marshal(map[string]string{"label": "Bad", "redirect_uri": uri})
		if err != nil {
			t.Fatal(err)
		}
		if r := b.send("POST", "/v4/account/oauth-clients", b.full, string(body)); r.StatusCode != 400 || !strings.Contains(r.body, "redirect_uri") {
			t.Errorf("%q: %d %s", uri, r.StatusCode, r.body)
		}
	}
}

// TestRedirectURIs are compared exactly: a user is sent nowhere else.
func TestRedirectURIs(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	shop := b.confidential()
	native := b.register(b.full, `{"label":"Native","redirect_uri":"http://127.0.0.1:7777/cb","public":true}`)
	ask := func(id string, more ...string) page {
		return get(t, browser(t), b.url+"/oauth/authorize?client_id="+id+"&response_type=code&scope=databases:read_only&state=12345678"+strings.Join(more, ""))
	}
	if r := ask(shop.ID); r.StatusCode != 200 {
		t.Errorf("without one, the registered one counts: %d %s", r.StatusCode, r.body)
	}
	for _, uri := range []string{
		"https://app.example.org/callback", "https://app.example.org/callback?tenant=8", callback + "&x=1", callback + "/", "https://evil.example.org/",
		"https://app.example.org.evil.org/callback?tenant=7", "https://APP.example.org/callback?tenant=7", "https://app.example.org/callback?tenant=7#", "",
	} {
		r := ask(shop.ID, "&redirect_uri="+url.QueryEscape(uri))
		if r.StatusCode != 400 || r.Header.Get("Location") != "" || strings.Contains(r.body, "<form") {
			t.Errorf("%q: %d %v", uri, r.StatusCode, r.Header)
		}
	}
	for _, uri := range []string{"http://127.0.0.1:7778/cb", "http://127.0.0.1/cb", "http://localhost:7777/cb"} {
		if r := ask(native.ID, "&redirect_uri="+url.QueryEscape(uri)); r.StatusCode != 400 || r.Header.Get("Location") != "" {
			t.Errorf("%q: %d %v", uri, r.StatusCode, r.Header)
		}
	}
	if r := ask(shop.ID, "&redirect_uri="+url.QueryEscape(callback)+"&redirect_uri=https://evil.example.org/"); r.StatusCode != 400 || r.Header.Get("Location") != "" {
		t.Errorf("two of them: %d %v", r.StatusCode, r.Header)
	}
	if r := ask(strings.Repeat("0", 20)); r.StatusCode != 400 || !strings.Contains(r.body, "no such client") {
		t.Errorf("an unknown client: %d %s", r.StatusCode, r.body)
	}
	for _, query := range []string{"&scope=databases:read_only", "&response_type=token"} {
		if r := ask(shop.ID, query); r.StatusCode != 400 || !strings.Contains(r.body, "twice") {
			t.Errorf("%s twice: %d %s", query, r.StatusCode, r.body)
		}
	}
	// What is wrong with a request of a client that can be trusted is told to it.
	for query, want := range map[string]string{
		"response_type=token&scope=*":                           "unsupported_response_type",
		"response_type=code&scope=linodes:read_only":            "invalid_scope",
		"response_type=code":                                    "invalid_scope",
		"response_type=code&scope=*&scopes=databases:read_only": "invalid_request",
	} {
		r := get(t, browser(t), b.url+"/oauth/authorize?client_id="+shop.ID+"&state=12345678&"+query)
		to, err := r.Location()
		if err != nil || to.Host != "app.example.org" || to.Query().Get("error") != want || to.Query().Get("state") != "12345678" {
			t.Errorf("%s: %d %v %v", query, r.StatusCode, to, err)
		}
	}
}

// TestLoginPage: what stands between a user and other sites.
func TestLoginPage(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.register(b.full, `{"label":"<script>alert(1)</script>","redirect_uri":"`+callback+`"}`)
	address := b.config(c, "*").AuthCodeURL("some-state")
	shown := get(t, browser(t), address)
	policy := shown.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self' https://app.example.org", "base-uri 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("no %s in %s", part, policy)
		}
	}
	_, rest, _ := strings.Cut(shown.body, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	if sum := sha256.Sum256([]byte(style)); style == "" || !strings.Contains(policy, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
		t.Errorf("the page's style isn't the one that %s allows: %s", policy, style)
	}
	h := shown.Header
	if strings.Contains(policy, "script-src") || strings.Contains(shown.body, "<script") || h.Get("Cache-Control") != "no-store" || h.Get("X-Frame-Options") != "DENY" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v\n%s", h, shown.body)
	}
	cookie := shown.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
		t.Errorf("cookie %+v", cookie)
	}
	form := url.Values{"csrf": {csrfField.FindStringSubmatch(shown.body)[1]}, "username": {"admin"}, "password": {password}, "answer": {"allow"}}
	if r := do(t, browser(t), http.MethodPost, address, form); r.StatusCode != 403 || r.Header.Get("Location") != "" {
		t.Errorf("a form without the cookie: %d", r.StatusCode)
	}
	if r := do(t, browser(t), http.MethodPost, address, form, "Cookie", "steward_csrf="+strings.Repeat("0", 64)); r.StatusCode != 403 {
		t.Errorf("a form with another page's token: %d", r.StatusCode)
	}
	for _, foreign := range [][2]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example.org"}} {
		if r := do(t, browser(t), http.MethodPost, address, form, "Cookie", cookie.Name+"="+cookie.Value, foreign[0], foreign[1]); r.StatusCode != 403 {
			t.Errorf("%s %s: %d", foreign[0], foreign[1], r.StatusCode)
		}
	}
	tabs := browser(t)
	first := csrfField.FindStringSubmatch(get(t, tabs, address).body)[1]
	if second := csrfField.FindStringSubmatch(get(t, tabs, address).body)[1]; first != second {
		t.Error("a second tab makes the first one's form too old")
	}
	r := b.login(address, "admin", password, "deny")
	if to, err := r.Location(); err != nil || to.Query().Get("error") != "access_denied" || to.Query().Get("code") != "" {
		t.Errorf("denied: %d %v", r.StatusCode, to)
	}
	wrong, unknown := b.login(address, "admin", "not the password", "allow"), b.login(address, "nobody", password, "allow")
	strip := func(s string) string { return csrfField.ReplaceAllString(s, "") }
	if wrong.StatusCode != 401 || unknown.StatusCode != 401 || strip(wrong.body) != strip(unknown.body) {
		t.Errorf("a wrong password: %d, an unknown user: %d", wrong.StatusCode, unknown.StatusCode)
	}
}

// TestLoginLimits: guesses are bounded per user, whether there is such a one or
// not, and per address. They lock nobody out who knows the password, nor a client
// that knows its secret.
func TestLoginLimits(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t, withinAMinute, func(o *api.Options) { o.FailedLoginsPerMinute = 2 * loginsPerMinute })
	c := b.confidential()
	address := b.config(c, "*").AuthCodeURL("some-state")
	for name, user := range map[string]string{"a user": "admin", "nobody": "nobody"} {
		for range loginsPerMinute {
			if r := b.login(address, user, "a wrong password", "allow"); r.StatusCode != 401 {
				t.Fatalf("%s: %d", name, r.StatusCode)
			}
		}
		r := b.login(address, strings.ToUpper(user), "a wrong password", "allow")
		if r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
			t.Errorf("%s, once too often: %d", name, r.StatusCode)
		}
	}
	r := b.login(address, "admin", password, "allow")
	if to, err := r.Location(); err != nil || to.Query().Get("code") == "" {
		t.Errorf("the right password after too many wrong ones: %d %v", r.StatusCode, to)
	}
	own := clientcredentials.Config{ClientID: c.ID, ClientSecret: c.Secret, TokenURL: b.url + "/oauth/token", Scopes: []string{"events:read_only"}}
	if _, err := own.Token(t.Context()); err != nil {
		t.Errorf("a client from an address that failed too often: %v", err)
	}
	own.ClientSecret = "wrong"
	if _, err := own.Token(t.Context()); refusal(err) != "temporarily_unavailable" {
		t.Errorf("with a wrong secret: %v", err)
	}
}

// TestOAuthOfRestricted: an application can never do what its user can't.
func TestOAuthOfRestricted(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	b.create()
	config := b.config(b.confidential(), "*")
	token, err := config.Exchange(t.Context(), b.code(config.AuthCodeURL("some-state"), "limited"))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.send("GET", "/v4/databases/instances", token.AccessToken, ""); r.StatusCode != 200 || !strings.Contains(r.body, `"results":0`) {
		t.Errorf("an ungranted database: %d %s", r.StatusCode, r.body)
	}
	for _, request := range []string{"GET /v4/account/users", "PUT /v4/account/users/limited", "PUT /v4/account/users/limited/grants"} {
		method, path, _ := strings.Cut(request, " ")
		if r := b.send(method, path, token.AccessToken, `{"restricted":false}`); r.StatusCode != 403 {
			t.Errorf("%s: %d %s", request, r.StatusCode, r.body)
		}
	}
	if r := b.send("POST", "/v4/databases/postgresql/instances", token.AccessToken, goodCreate); r.StatusCode != 403 {
		t.Errorf("create: %d", r.StatusCode)
	}
	if r := b.send("POST", "/v4/profile/tokens", token.AccessToken, `{"label":"longer","scopes":"*","expiry":"2099-01-01T00:00:00"}`); r.StatusCode != 400 {
		t.Errorf("an application makes itself last: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("DELETE", "/v4/account/users/limited", b.full, ""); r.StatusCode != 200 {
		t.Fatalf("delete user: %d %s", r.StatusCode, r.body)
	}
	if r := b.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != 401 {
		t.Errorf("a deleted user's application: %d", r.StatusCode)
	}
}

// TestRevoke acts on the next request, on every server.
func TestRevoke(t *testing.T) {
	t.Parallel()
	first, second := benches(t, true)
	b := overHTTP(t, first)
	c, other := b.confidential(), b.register(b.full, `{"label":"Other","redirect_uri":"`+callback+`"}`)
	config := b.config(c, "databases:read_only")
	revoke := func(c clientAnswer, token string) page {
		return do(t, http.DefaultClient, http.MethodPost, b.url+"/oauth/revoke", url.Values{"client_id": {c.ID}, "client_secret": {c.Secret}, "token": {token}})
	}
	for name, pick := range map[string]func(*oauth2.Token) string{
		"access token":  func(t *oauth2.Token) string { return t.AccessToken },
		"refresh token": func(t *oauth2.Token) string { return t.RefreshToken },
	} {
		token, err := config.Exchange(t.Context(), b.code(config.AuthCodeURL("some-state"), "admin"))
		if err != nil {
			t.Fatal(err)
		}
		alive := func(want int) {
			t.Helper()
			if r := second.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != want {
				t.Errorf("%s, on the other server: %d, want %d", name, r.StatusCode, want)
			}
		}
		alive(200)
		if r := revoke(other, pick(token)); r.StatusCode != 200 {
			t.Errorf("another client's %s: %d %s", name, r.StatusCode, r.body)
		}
		if r := revoke(clientAnswer{ID: c.ID, Secret: other.Secret}, pick(token)); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("with a wrong secret: %d %s", r.StatusCode, r.body)
		}
		alive(200)
		if r := revoke(c, pick(token)); r.StatusCode != 200 {
			t.Errorf("revoke: %d %s", r.StatusCode, r.body)
		}
		alive(401)
		expired := &oauth2.Token{RefreshToken: token.RefreshToken, Expiry: time.Now().Add(-time.Hour)}
		if _, err := config.TokenSource(t.Context(), expired).Token(); refusal(err) != "invalid_grant" {
			t.Errorf("refresh after the revocation of its %s: %v", name, err)
		}
	}
	token, err := config.Exchange(t.Context(), b.code(config.AuthCodeURL("some-state"), "admin"))
	if err != nil {
		t.Fatal(err)
	}
	var apps struct{ Data []struct{ ID json.Number } }
	if err := json.Unmarshal([]byte(b.send("GET", "/v4/profile/apps", b.full, "").body), &apps); err != nil || len(apps.Data) != 1 {
		t.Fatalf("%+v %v", apps, err)
	}
	one := "/v4/profile/apps/" + apps.Data[0].ID.String()
	if r := b.send("DELETE", one, b.restricted, ""); r.StatusCode != 404 {
		t.Errorf("another user's application: %d", r.StatusCode)
	}
	if r := b.send("DELETE", one, b.full, ""); r.StatusCode != 200 {
		t.Errorf("take it back: %d %s", r.StatusCode, r.body)
	}
	if r := second.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != 401 {
		t.Errorf("after the user took it back: %d", r.StatusCode)
	}
}

func TestIntrospect(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.confidential()
	config := b.config(c, "events:read_only")
	token, err := config.Exchange(t.Context(), b.code(config.AuthCodeURL("some-state"), "limited"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(as, about string) page {
		return do(t, http.DefaultClient, http.MethodPost, b.url+"/oauth/introspect", url.Values{"token": {about}}, "Authorization", "Bearer "+as)
	}
	for text, want := range map[string]string{
		token.AccessToken:       `"active":true,"scope":"events:read_only","client_id":"` + c.ID + `","username":"limited"`,
		token.RefreshToken:      `"token_type":"refresh_token"`,
		b.readOnly:              `"active":true,"scope":"account:read_only databases:read_only events:read_only","username":"admin"`,
		strings.Repeat("0", 64): `{"active":false}`,
		"nonsense":              `{"active":false}`,
	} {
		if r := ask(b.full, text); r.StatusCode != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%d %s, want %s", r.StatusCode, r.body, want)
		}
	}
	if r := ask(b.restricted, token.AccessToken); r.StatusCode != 403 {
		t.Errorf("by a restricted user: %d %s", r.StatusCode, r.body)
	}
	if r := ask(token.AccessToken, b.full); r.StatusCode != 401 {
		t.Errorf("with too small a scope: %d %s", r.StatusCode, r.body)
	}
	if r := ask(strings.Repeat("0", 64), b.full); r.StatusCode != 401 {
		t.Errorf("by a stranger: %d %s", r.StatusCode, r.body)
	}
	if r := ask(b.stranger(), b.full); r.body != `{"active":false}`+"\n" {
		t.Errorf("by another account: %d %s", r.StatusCode, r.body)
	}
}

// TestOnlyHashes: who reads the store can't use what it reads.
func TestOnlyHashes(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	c := b.confidential()
	config := b.config(c, "*")
	code := b.code(config.AuthCodeURL("some-state"), "admin")
	unused := b.code(config.AuthCodeURL("some-state"), "admin")
	token, err := config.Exchange(t.Context(), code)
	if err != nil {
		t.Fatal(err)
	}
	all := dump(t, b.bench)
	if !strings.Contains(all, c.ID) || !strings.Contains(all, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Fatal("the dump lacks what it must have")
	}
	for name, secret := range map[string]string{
		"code": code, "unused code": unused, "access token": token.AccessToken, "refresh token": token.RefreshToken, "client secret": c.Secret, "password": password,
	} {
		if strings.Contains(all, secret) {
			t.Errorf("the store holds the %s", name)
		}
	}
}

// dump is every row of steward's own tables, as text.
func dump(t *testing.T, b *bench) string {
	t.Helper()
	rows, err := b.store.Pool().Query(t.Context(), "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename NOT LIKE 'river%'")
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, table := range tables {
		var text string
		if err := b.store.Pool().QueryRow(t.Context(), "SELECT coalesce(string_agg(x::text, E'\\n' ORDER BY x::text), '') FROM "+table+" x").Scan(&text); err != nil {
			t.Fatal(err)
		}
		all.WriteString(text)
	}
	return all.String()
}

// TestPurge removes what ended, and nothing else.
func TestPurge(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	config := b.config(b.confidential(), "*")
	if _, err := config.Exchange(t.Context(), b.code(config.AuthCodeURL("some-state"), "admin")); err != nil {
		t.Fatal(err)
	}
	rows := func() (n int) {
		err := b.store.Pool().QueryRow(context.Background(), `SELECT (SELECT count(*) FROM authorizations) + (SELECT count(*) FROM authorization_codes)
			+ (SELECT count(*) FROM refresh_tokens) + (SELECT count(*) FROM tokens WHERE authorization_id IS NOT NULL)`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	purge := func(after time.Duration) {
		deps := control.Deps{Store: b.store, Now: func() time.Time { return time.Now().Add(after) }}
		if err := control.New(deps).Authorizations.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 4}, {25 * time.Hour, 3}, {27 * time.Hour, 2}, {32 * 24 * time.Hour, 0}} {
		if purge(step.after); rows() != step.left {
			t.Errorf("after %s %d rows are left, want %d", step.after, rows(), step.left)
		}
	}
	if r := b.send("GET", "/v4/profile", b.full, ""); r.StatusCode != 200 {
		t.Errorf("a personal token: %d", r.StatusCode)
	}
}
