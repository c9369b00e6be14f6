package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"steward/internal/api"
	"steward/internal/control"
)

// TestOAuthAcrossAccounts: an account's applications, codes and tokens are of no use to
// another account's users and applications, who are answered as to nonsense.
func TestOAuthAcrossAccounts(t *testing.T) {
	t.Parallel()
	b := newOAuthBench(t)
	theirs := b.confidential()
	stranger := b.stranger()
	mine := b.register(stranger, `{"label":"Shop","redirect_uri":"`+callback+`"}`)
	user, err := b.store.UserAnywhere(t.Context(), "stranger")
	if err != nil {
		t.Fatal(err)
	}
	if err := control.New(control.Deps{Store: b.store, PasswordCost: cheap}).Logins.SetPassword(t.Context(), user, password); err != nil {
		t.Fatal(err)
	}
	config := b.config(theirs, "databases:read_only")
	address := config.AuthCodeURL("some-state")

	foreign, wrong := b.login(address, "stranger", password, "allow"), b.login(address, "stranger", "not the password", "allow")
	hide := func(p page) string { return csrfField.ReplaceAllString(p.body, "") }
	if foreign.StatusCode != wrong.StatusCode || hide(foreign) != hide(wrong) || foreign.StatusCode == http.StatusSeeOther {
		t.Errorf("a right password of another account's user: %d %s; a wrong one: %d", foreign.StatusCode, foreign.body, wrong.StatusCode)
	}

	post := func(path string, form url.Values) page {
		return do(t, http.DefaultClient, http.MethodPost, b.url+path, form)
	}
	as := func(c clientAnswer, more url.Values) url.Values {
		more.Set("client_id", c.ID)
		more.Set("client_secret", c.Secret)
		return more
	}
	exchange := func(code string) page {
		return post("/oauth/token", as(mine, url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}}))
	}
	code := b.code(address, "admin")
	if stolen, none := exchange(code), exchange(strings.Repeat("0", 64)); stolen.StatusCode != 400 || stolen.body != none.body {
		t.Errorf("another account's code: %d %s; none: %d %s", stolen.StatusCode, stolen.body, none.StatusCode, none.body)
	}
	token, err := config.Exchange(t.Context(), b.code(address, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	refresh := func(text string) page {
		return post("/oauth/token", as(mine, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {text}}))
	}
	if stolen, none := refresh(token.RefreshToken), refresh(strings.Repeat("0", 64)); stolen.StatusCode < 400 || stolen.StatusCode != none.StatusCode || stolen.body != none.body {
		t.Errorf("another account's refresh token: %d %s; none: %d %s", stolen.StatusCode, stolen.body, none.StatusCode, none.body)
	}
	revoke := func(text string) page { return post("/oauth/revoke", as(mine, url.Values{"token": {text}})) }
	for _, text := range []string{token.AccessToken, token.RefreshToken} {
		if foreign, none := revoke(text), revoke(strings.Repeat("0", 64)); foreign.StatusCode != none.StatusCode || foreign.body != none.body {
			t.Errorf("revoking another account's token: %d %s; none: %d %s", foreign.StatusCode, foreign.body, none.StatusCode, none.body)
		}
	}
	introspect := func(about string) page {
		return do(t, http.DefaultClient, http.MethodPost, b.url+"/oauth/introspect", url.Values{"token": {about}}, "Authorization", "Bearer "+stranger)
	}
	for _, text := range []string{token.AccessToken, token.RefreshToken, b.full} {
		if r := introspect(text); r.body != `{"active":false}`+"\n" {
			t.Errorf("another account's token is told of: %s", r.body)
		}
	}
	if r := b.send("GET", "/v4/profile", token.AccessToken, ""); r.StatusCode != 200 {
		t.Errorf("the access token after all that: %d %s", r.StatusCode, r.body)
	}
	if _, err := config.TokenSource(t.Context(), &oauth2.Token{RefreshToken: token.RefreshToken, Expiry: time.Now().Add(-time.Hour)}).Token(); err != nil {
		t.Errorf("the refresh token after all that: %v", err)
	}
}

// TestStormOfAnotherAccount: one that has used all its requests up, and guesses tokens
// beside them, takes nothing of another's, even from the same address.
func TestStormOfAnotherAccount(t *testing.T) {
	t.Parallel()
	b := newBench(t, withinAMinute, func(o *api.Options) { o.RequestsPerMinute, o.StatsPerMinute, o.FailedLoginsPerMinute = 20, 20, 20 })
	stranger := b.stranger()
	refused := map[int]int{}
	for range 60 {
		refused[b.send("GET", "/v4/profile", stranger, "").StatusCode]++
		refused[b.send("GET", "/v4/managed/stats", stranger, "").StatusCode]++
		refused[b.send("GET", "/v4/profile", strings.Repeat("0", 64), "").StatusCode]++
		b.send("GET", "/v4/regions", "", "")
	}
	if refused[http.StatusTooManyRequests] != 3*40 {
		t.Errorf("the storm was answered %v", refused)
	}
	for _, path := range []string{"/v4/profile", "/v4/managed/stats"} {
		r := b.send("GET", path, b.full, "")
		if r.StatusCode != 200 || r.Header.Get("X-RateLimit-Remaining") != "19" {
			t.Errorf("%s of the other account: %d, %s requests left", path, r.StatusCode, r.Header.Get("X-RateLimit-Remaining"))
		}
	}
}
