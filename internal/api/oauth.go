package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/limit"
	"steward/internal/oauth"
)

// registerOAuth adds the authorization server. Its endpoints are those of the
// RFCs, with forms instead of JSON, and outside of the API document.
func (a *API) registerOAuth() {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		a.showProblem(w, http.StatusForbidden, "The form was sent from another site.")
	}))
	a.oauthRoute("GET /oauth/authorize", http.HandlerFunc(a.askUser))
	a.oauthRoute("POST /oauth/authorize", crossOrigin.Handler(http.HandlerFunc(a.userAnswered)))
	a.oauthRoute("POST /oauth/token", http.HandlerFunc(a.exchange))
	a.oauthRoute("POST /oauth/revoke", http.HandlerFunc(a.revoke))
	a.oauthRoute("POST /oauth/token/expire", http.HandlerFunc(a.revoke)) // as existing clients call it
	a.oauthRoute("POST /oauth/introspect", http.HandlerFunc(a.introspect))
}

// oauthRoute gives a handler its request's body back, and counts the request
// against its address.
func (a *API) oauthRoute(pattern string, h http.Handler) {
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if s := a.limits.anonymous.Take(r.Context(), limit.AddressKey(stateOf(r.Context()).address)); !s.OK {
			a.refuseOAuth(w, r, newTooSoon(s))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(stateOf(r.Context()).body))
		h.ServeHTTP(w, r)
	})
}

// askUser shows the log-in and consent page.
func (a *API) askUser(w http.ResponseWriter, r *http.Request) {
	request, err := a.oauth.Authorize(r.Context(), r)
	if err != nil {
		a.refuseAuthorize(w, r, request, err)
		return
	}
	a.showLogin(w, r, request, http.StatusOK, "")
}

// refuseAuthorize tells the client what is wrong with its request, or the user
// when the client can't be trusted to be one.
func (a *API) refuseAuthorize(w http.ResponseWriter, r *http.Request, request *oauth.Request, err error) {
	refusal, ok := oauth.Explain(err)
	switch {
	case !ok:
		e := a.toStatus(r.Context(), err)
		maps.Copy(w.Header(), e.GetHeaders())
		a.showProblem(w, e.status, e.Errors[0].Reason)
	case errors.Is(err, oauth.ErrNoRedirect) || request == nil:
		a.showProblem(w, http.StatusBadRequest, refusal.Description)
	default:
		a.oauth.Refuse(r.Context(), w, request, err)
	}
}

// userAnswered logs the user in and gives the client what the user allows.
func (a *API) userAnswered(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	request, err := a.oauth.Authorize(ctx, r)
	if err != nil {
		a.refuseAuthorize(w, r, request, err)
		return
	}
	if err := r.ParseForm(); err != nil || !csrfHolds(r) {
		a.showLogin(w, r, request, http.StatusForbidden, "The page was too old, or your browser keeps no cookies. Try again.")
		return
	}
	if r.PostForm.Get("answer") != "allow" {
		a.oauth.Refuse(ctx, w, request, oauth.ErrDenied)
		return
	}
	if r.PostForm.Has("step") {
		a.codeGiven(w, r, request)
		return
	}
	user, err := a.login(r, request.Client)
	step := ""
	if err == nil {
		step, err = a.Control.Logins.BeginStep(ctx, user, request.Client.ID)
	}
	switch {
	case err == nil && step != "":
		// Half a log-in is none yet: the trail tells of what becomes of it.
		stateOf(ctx).principal = account.Principal{Account: user.Account, Client: request.Client.ID}
		a.showStep(w, r, request, http.StatusOK, "", step)
	case err == nil:
		a.grant(w, r, request, user)
	case fault.IsKind(err, fault.Unauthenticated):
		a.showLogin(w, r, request, http.StatusUnauthorized, "User name or password is wrong.")
	case fault.IsKind(err, fault.TooMany):
		w.Header().Set("Retry-After", "60")
		a.showLogin(w, r, request, http.StatusTooManyRequests, "Too many attempts. Wait a minute.")
	default:
		a.refuseAuthorize(w, r, request, err)
	}
}

// codeGiven ends the log-in of a user who has a second factor.
func (a *API) codeGiven(w http.ResponseWriter, r *http.Request, request *oauth.Request) {
	ctx, step := r.Context(), r.PostForm.Get("step")
	user, err := a.Control.Logins.FinishStep(ctx, step, request.Client.ID, r.PostForm.Get("code"))
	stateOf(ctx).principal = account.Principal{Account: cmp.Or(request.Client.Account, user.Account), User: user, Client: request.Client.ID}
	if fault.IsKind(err, fault.Unauthenticated) {
		err = a.mistrust(ctx, stateOf(ctx).address, err)
	}
	switch {
	case err == nil:
		a.grant(w, r, request, user)
	case fault.IsKind(err, fault.NotFound):
		a.showLogin(w, r, request, http.StatusUnauthorized, "That took too long. Log in again.")
	case fault.IsKind(err, fault.Unauthenticated):
		a.showStep(w, r, request, http.StatusUnauthorized, "The code is wrong, or was used already.", step)
	case fault.IsKind(err, fault.TooMany):
		w.Header().Set("Retry-After", "900")
		a.showStep(w, r, request, http.StatusTooManyRequests, "Too many wrong codes. Wait a quarter of an hour, or give a recovery code.", step)
	default:
		a.refuseAuthorize(w, r, request, err)
	}
}

// grant gives the client what the user allows.
func (a *API) grant(w http.ResponseWriter, r *http.Request, request *oauth.Request, user account.User) {
	from := account.Origin{Browser: account.BrowserOf(r.UserAgent()), Address: stateOf(r.Context()).address}
	if err := a.oauth.Grant(r.Context(), w, request, user, from); err != nil {
		a.refuseAuthorize(w, r, request, err)
	}
}

// login checks name and password. Users log in to applications of their own
// account only.
func (a *API) login(r *http.Request, client account.Client) (account.User, error) {
	address := stateOf(r.Context()).address
	user, err := a.Control.Logins.Login(r.Context(), control.Attempt{
		Account: client.Account, Username: r.PostForm.Get("username"), Password: r.PostForm.Get("password"),
		Address: address, Suspect: a.suspect(address),
	})
	stateOf(r.Context()).principal = account.Principal{Account: cmp.Or(client.Account, user.Account), User: user, Client: client.ID}
	if fault.IsKind(err, fault.Unauthenticated) {
		err = a.mistrust(r.Context(), address, err)
	}
	return user, err
}

// exchange answers tokens.
func (a *API) exchange(w http.ResponseWriter, r *http.Request) {
	tokens, principal, err := a.oauth.Exchange(r.Context(), r)
	stateOf(r.Context()).principal = principal
	if err != nil {
		a.refuseOAuth(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, tokens)
}

// revoke ends a family of tokens.
func (a *API) revoke(w http.ResponseWriter, r *http.Request) {
	if err := a.oauth.Revoke(r.Context(), r); err != nil {
		a.refuseOAuth(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, empty{})
}

// oauthProblem is an error as RFC 6749 has it and, for the API's clients, as
// every other error here.
type oauthProblem struct {
	Error       string    `json:"error"`
	Description string    `json:"error_description,omitempty"`
	Errors      []problem `json:"errors"`
}

// refuseOAuth answers an error of an endpoint that programs call. Failed proofs
// of who is asking count against their address.
func (a *API) refuseOAuth(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Cache-Control", "no-store")
	if late, ok := errors.AsType[*tooSoon](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(late.after))
		writeJSON(w, http.StatusTooManyRequests, oauthProblem{"temporarily_unavailable", late.Reason, []problem{{Reason: late.Reason}}})
		return
	}
	refusal, ok := oauth.Explain(err)
	if !ok {
		e := a.toStatus(r.Context(), err)
		maps.Copy(w.Header(), e.GetHeaders())
		writeJSON(w, e.status, oauthProblem{"server_error", e.Errors[0].Reason, e.Errors})
		return
	}
	if refusal.Code == "invalid_client" || refusal.Code == "invalid_grant" {
		if late := a.mistrust(r.Context(), stateOf(r.Context()).address, nil); late != nil {
			a.refuseOAuth(w, r, late)
			return
		}
	}
	if refusal.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="steward", charset="UTF-8"`)
	}
	writeJSON(w, refusal.Status, oauthProblem{refusal.Code, refusal.Description, []problem{{Reason: refusal.Description}}})
}

// introspection is RFC 7662's answer.
type introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope,omitempty"`
	ClientID  string `json:"client_id,omitempty"`
	Username  string `json:"username,omitempty"`
	Subject   string `json:"sub,omitempty"`
	TokenType string `json:"token_type,omitempty"`
	Issued    int64  `json:"iat,omitempty"`
	Expires   int64  `json:"exp,omitempty"`
}

// introspect tells operators about a token of their account. It takes a token
// like the rest of the API, of an unrestricted user, with account:read_only.
func (a *API) introspect(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	principal, err := a.principal(ctx, r.Header.Get("Authorization"), stateOf(ctx).address)
	if err == nil {
		stateOf(ctx).principal = principal
		if s := a.limits.tokens.Take(ctx, strconv.FormatInt(int64(principal.Token), 10)); !s.OK {
			a.refuseOAuth(w, r, newTooSoon(s))
			return
		}
		if !principal.Scopes.Allow(readAccount) {
			err = fault.NewScopeTooSmall()
		}
	}
	var found account.Introspection
	if err == nil {
		if err = r.ParseForm(); err != nil {
			err = fault.Required("token")
		}
	}
	if err == nil {
		found, err = a.Control.Authorizations.Introspect(ctx, principal, r.PostForm.Get("token"))
	}
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case fault.IsKind(err, fault.NotFound):
		writeJSON(w, http.StatusOK, introspection{})
	case err != nil:
		e := a.toStatus(ctx, err)
		maps.Copy(w.Header(), e.GetHeaders())
		writeJSON(w, e.status, e)
	default:
		writeJSON(w, http.StatusOK, showIntrospection(found))
	}
}

func showIntrospection(i account.Introspection) introspection {
	v := introspection{
		Active: true, Scope: i.Scopes.String(), ClientID: string(i.Client), Username: i.Username,
		Subject: strconv.FormatInt(int64(i.User), 10), TokenType: "access_token", Issued: i.Created.Unix(),
	}
	if i.Refresh {
		v.TokenType = "refresh_token"
	}
	if i.Expiry != nil {
		v.Expires = i.Expiry.Unix()
	}
	return v
}
