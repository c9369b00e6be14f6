package oauth

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/ory/fosite"

	"steward/internal/account"
)

// parameters is a request with these parameters and no others, however they came.
// One that comes twice is refused (RFC 6749 §3.1): two readers of it might pick
// different ones.
func parameters(r *http.Request, values url.Values) (*http.Request, error) {
	for name, all := range values {
		if len(all) > 1 {
			return nil, fosite.ErrInvalidRequest.WithHintf("The parameter %q is there twice.", name)
		}
	}
	r2 := r.Clone(r.Context())
	r2.Form, r2.MultipartForm = url.Values{}, nil
	maps.Copy(r2.Form, values)
	// What fosite would do on the wire's behalf only.
	for _, name := range []string{"request", "request_uri", "registration", "response_mode"} {
		r2.Form.Del(name)
	}
	r2.PostForm = r2.Form
	r2.Body, r2.Header = http.NoBody, r.Header.Clone()
	r2.Header.Del("Content-Type")
	return r2, nil
}

// oneScope makes one of the spellings of scopes: `scopes` is `scope`, and commas
// separate as spaces do.
func oneScope(values url.Values) error {
	text, other := values.Get("scope"), values.Get("scopes")
	values.Del("scope")
	values.Del("scopes")
	if text == "" {
		text = other
	} else if other != "" && other != text {
		return fosite.ErrInvalidRequest.WithHint("scope and scopes differ.")
	}
	if text == "" {
		return nil
	}
	scopes, err := account.ParseScopes(text)
	if err != nil {
		return fosite.ErrInvalidScope.WithHint(err.Error())
	}
	values.Set("scope", scopes.String())
	return nil
}

// form is the request with the parameters of its body, which must be a form.
func form(r *http.Request) (*http.Request, error) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if strings.EqualFold(strings.TrimSpace(kind), "multipart/form-data") {
		if err := r.ParseMultipartForm(1 << 20); err != nil {
			return nil, fosite.ErrInvalidRequest.WithHint("The body can't be read as a form.")
		}
	} else if err := r.ParseForm(); err != nil {
		return nil, fosite.ErrInvalidRequest.WithHint("The body can't be read as a form.")
	}
	r2, err := parameters(r, r.PostForm)
	if err == nil {
		err = oneScope(r2.Form)
	}
	return r2, err
}

// leastState is how long fosite wants a state to be.
const leastState = fosite.MinParameterEntropy

// padState makes a request without a state, or with a short one, acceptable to
// fosite, and returns the state as it was. Existing clients send none; PKCE and
// the exact redirect URI protect the code, the page's own token the log-in.
func padState(values url.Values) (sent string) {
	sent = values.Get("state")
	if len(sent) < leastState {
		values.Set("state", sent+strings.Repeat("-", leastState))
	}
	return sent
}

type classicKey struct{}

// classic adds what existing clients leave out when they exchange a code. The
// code was sent to the one redirect URI that the client has; not naming it again
// opens nothing.
func classic(ctx context.Context, values url.Values) context.Context {
	if values.Get("grant_type") != "" || values.Get("code") == "" {
		return ctx
	}
	values.Set("grant_type", "authorization_code")
	return context.WithValue(ctx, classicKey{}, values.Get("redirect_uri") == "")
}

func isClassic(ctx context.Context) bool {
	c, _ := ctx.Value(classicKey{}).(bool)
	return c
}
