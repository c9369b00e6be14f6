// Package oauth is the authorization server (RFC 6749): ory/fosite's flows over
// steward's store. Access tokens are tokens of the API like any other; of codes,
// tokens and secrets only hashes are kept. It speaks net/http's requests, since
// fosite reads them; pages and answers are the API door's.
package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ory/fosite"
	"github.com/ory/fosite/compose"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/store"
)

// How long what the server hands out lasts. Access tokens: as existing clients
// of the API family expect it. Codes are exchanged by programs, at once.
const (
	AccessLifetime  = 2 * time.Hour
	RefreshLifetime = 30 * 24 * time.Hour
	CodeLifetime    = 5 * time.Minute
)

// Server is the authorization server.
type Server struct {
	control  *control.Control
	storage  *storage
	provider fosite.OAuth2Provider
}

// New makes a server over the use cases. consoleRedirect is the redirect URI of the console,
// "" where nobody can log in to it.
func New(c *control.Control, consoleRedirect string) *Server {
	config := &fosite.Config{
		AccessTokenLifespan: AccessLifetime, RefreshTokenLifespan: RefreshLifetime, AuthorizeCodeLifespan: CodeLifetime,
		ScopeStrategy: covers, ClientSecretsHasher: secrets{},
		RefreshTokenScopes:          []string{}, // every code leads to a refresh token
		EnforcePKCEForPublicClients: true,
	}
	kept := &storage{c, consoleRedirect}
	return &Server{c, kept, compose.Compose(config, kept, strategy{},
		compose.OAuth2AuthorizeExplicitFactory, compose.OAuth2ClientCredentialsGrantFactory, compose.OAuth2RefreshTokenGrantFactory,
		compose.OAuth2TokenRevocationFactory, compose.OAuth2PKCEFactory)}
}

// Request is a checked request of a client for a user's authorization.
type Request struct {
	Client account.Client
	Scopes account.Scopes

	requester fosite.AuthorizeRequester
}

// ErrNoRedirect is within the errors of requests whose client or redirect URI
// can't be trusted: the user is told, and sent nowhere.
var ErrNoRedirect = errors.New("nowhere to send the answer to")

// Authorize checks a request to /oauth/authorize. Its parameters are the query's.
// When the error isn't an ErrNoRedirect, the request can still be refused to
// the client with Refuse.
func (s *Server) Authorize(ctx context.Context, r *http.Request) (*Request, error) {
	r2, err := parameters(r, r.URL.Query())
	if err != nil {
		return nil, errors.Join(ErrNoRedirect, err)
	}
	client, _, err := s.storage.client(ctx, account.ClientID(r2.Form.Get("client_id")))
	if fault.IsKind(err, fault.NotFound) {
		return nil, errors.Join(ErrNoRedirect, fosite.ErrInvalidClient.WithHint("There is no such client."))
	}
	if err != nil {
		return nil, errors.Join(ErrNoRedirect, err)
	}
	// fosite lets the port of loopback URIs differ; here they are compared whole.
	if uri, sent := r2.Form["redirect_uri"]; sent && uri[0] != client.RedirectURI {
		return nil, errors.Join(ErrNoRedirect, fosite.ErrInvalidRequest.WithHint("The redirect URI is not the one that the client is registered with."))
	}
	scopeErr, state := oneScope(r2.Form), padState(r2.Form)
	requester, err := s.provider.NewAuthorizeRequest(ctx, r2)
	if concrete, ok := requester.(*fosite.AuthorizeRequest); ok {
		concrete.State = state
	}
	if requester == nil || requester.GetRedirectURI() == nil || requester.GetRedirectURI().String() == "" {
		return nil, errors.Join(ErrNoRedirect, err)
	}
	request := &Request{Client: client, requester: requester}
	if err = errors.Join(scopeErr, err); err != nil {
		return request, err
	}
	if request.Scopes, err = account.ParseScopes(r2.Form.Get("scope")); err != nil {
		return request, fosite.ErrInvalidScope.WithHint(err.Error())
	}
	return request, nil
}

// Grant records that the user allows the request, and sends the user back to the
// client with a code.
func (s *Server) Grant(ctx context.Context, w http.ResponseWriter, request *Request, user account.User, from account.Origin) error {
	for _, scope := range request.requester.GetRequestedScopes() {
		request.requester.GrantScope(scope)
	}
	var response fosite.AuthorizeResponder
	err := s.control.Authorizations.InTx(ctx, func(tx *store.Tx) error {
		err := tx.CreateAuthorization(ctx, account.Authorization{
			Request: request.requester.GetID(), Client: request.Client.ID, User: user.ID, Scopes: request.Scopes, Origin: from,
		})
		if err != nil {
			return err
		}
		response, err = s.provider.NewAuthorizeResponse(withTx(ctx, tx), request.requester, newSession(user.ID))
		return err
	})
	if err != nil {
		return err
	}
	s.provider.WriteAuthorizeResponse(ctx, w, request.requester, response)
	return nil
}

// Refuse sends the user back to the client with an error.
func (s *Server) Refuse(ctx context.Context, w http.ResponseWriter, request *Request, err error) {
	s.provider.WriteAuthorizeError(ctx, w, request.requester, err)
}

// Tokens are the answer to an exchange.
type Tokens struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitempty"`
	Scope        string `json:"scope"`
	// Scopes says it again, as existing clients read it.
	Scopes string `json:"scopes"`
}

// Exchange turns a code, a refresh token or the client's own credentials into
// tokens. A code may be sent without grant_type, as existing clients do.
// What a misuse takes away stays taken, although the exchange fails. The
// principal is who got the tokens, as far as that became known.
func (s *Server) Exchange(ctx context.Context, r *http.Request) (Tokens, account.Principal, error) {
	var who account.Principal
	r2, err := form(r)
	if err != nil {
		return Tokens{}, who, err
	}
	ctx = classic(ctx, r2.PostForm)
	var response fosite.AccessResponder
	var refusal error
	err = s.control.Authorizations.InTx(ctx, func(tx *store.Tx) error {
		ctx := withTx(ctx, tx)
		request, err := s.provider.NewAccessRequest(ctx, r2, newSession(0))
		if err == nil {
			err = s.ownAccess(ctx, tx, request)
		}
		if request != nil {
			who = principalOf(request)
			who.Account = accountOf(ctx, tx, who)
			who.User.Account = who.Account
		}
		if err == nil {
			response, err = s.provider.NewAccessResponse(ctx, request)
		}
		refusal = err
		if internal(err) {
			return err // and nothing has happened
		}
		return nil
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return Tokens{}, who, err
	}
	tokens := Tokens{AccessToken: response.GetAccessToken(), TokenType: response.GetTokenType()}
	answer := response.ToMap()
	tokens.ExpiresIn, _ = answer["expires_in"].(int64)
	tokens.RefreshToken, _ = answer["refresh_token"].(string)
	tokens.Scope, _ = answer["scope"].(string)
	tokens.Scopes = tokens.Scope
	return tokens, who, nil
}

// ownAccess begins a family for a client's own credentials: in the name of who
// registered it, and within what that token could.
func (s *Server) ownAccess(ctx context.Context, tx *store.Tx, request fosite.AccessRequester) error {
	if !request.GetGrantTypes().ExactOne("client_credentials") {
		return nil
	}
	client, ok := request.GetClient().(*client)
	if !ok {
		return errors.New("a client that isn't the storage's")
	}
	asked := request.GetRequestedScopes()
	if len(asked) == 0 { // no default: it would be all that the client may do
		return fosite.ErrInvalidScope.WithHintf("Name the scopes that the token is for. By itself the client may have at most: %s", client.OwnScopes)
	}
	scopes, err := account.ParseScopes(strings.Join(asked, " "))
	if err != nil {
		return fosite.ErrInvalidScope.WithHint(err.Error())
	}
	if !client.OwnScopes.Include(scopes) {
		return fosite.ErrInvalidScope.WithHintf("By itself the client may have at most: %s", client.OwnScopes)
	}
	if end := client.OwnExpiry; end != nil {
		if !end.After(time.Now()) {
			return fosite.ErrUnauthorizedClient.WithHint("The token that the client was registered with has expired, and with it what the client may do by itself.")
		}
		if end.Before(request.GetSession().GetExpiresAt(fosite.AccessToken)) {
			request.GetSession().SetExpiresAt(fosite.AccessToken, *end)
		}
	}
	for scope := range strings.FieldsSeq(scopes.String()) {
		request.GrantScope(scope)
	}
	request.SetSession(sessionOf(request.GetSession(), client.Owner))
	return tx.CreateAuthorization(ctx, account.Authorization{Request: request.GetID(), Client: client.ID, User: client.Owner, Scopes: scopes})
}

// Revoke ends the family of an access or refresh token of the client that asks.
// Tokens that aren't there, or another client's, are nothing to do (RFC 7009 §2.2).
func (s *Server) Revoke(ctx context.Context, r *http.Request) error {
	r2, err := form(r)
	if err != nil {
		return err
	}
	return s.control.Authorizations.InTx(ctx, func(tx *store.Tx) error {
		err := s.provider.NewRevocationRequest(withTx(ctx, tx), r2)
		if errors.Is(err, fosite.ErrUnauthorizedClient) {
			return nil
		}
		if errors.Is(err, fosite.ErrTemporarilyUnavailable) { // what fosite makes of every error of its storage
			return fmt.Errorf("%w: %w", store.ErrAway, err)
		}
		return err
	})
}

// Refusal is an error as the client is told it.
type Refusal struct {
	Status            int
	Code, Description string
}

// Explain tells what to answer. ok is false for what is the server's own fault,
// and none of the client's business.
func Explain(err error) (r Refusal, ok bool) {
	if internal(err) {
		return Refusal{}, false
	}
	e := fosite.ErrorToRFC6749Error(err)
	if e.ErrorField == fosite.ErrInvalidGrant.ErrorField {
		e = fosite.ErrInvalidGrant // a closer reason would tell a code of another account's from none
	}
	return Refusal{e.CodeField, e.ErrorField, e.GetDescription()}, true
}

// internal tells what isn't the client's doing.
func internal(err error) bool {
	if err == nil {
		return false
	}
	known, ok := errors.AsType[*fosite.RFC6749Error](err)
	// A client that couldn't be looked up is none that proved nothing.
	return !ok || known.CodeField >= http.StatusInternalServerError || errors.Is(err, store.ErrAway) || errors.Is(err, store.ErrInDoubt)
}

// accountOf is whose audit trail an exchange of the principal is in: for applications
// that all accounts have, the user's, if it is known.
func accountOf(ctx context.Context, tx *store.Tx, p account.Principal) account.ID {
	if p.Account != 0 || p.User.ID == 0 {
		return p.Account
	}
	id, err := tx.AccountOfUser(ctx, p.User.ID)
	if err != nil {
		return 0 // the exchange itself will meet the reason
	}
	return id
}

func principalOf(r fosite.Requester) account.Principal {
	var p account.Principal
	if c, ok := r.GetClient().(*client); ok {
		p.Account, p.Client = c.Account, c.ID
	}
	id, _ := strconv.ParseInt(r.GetSession().GetSubject(), 10, 64)
	p.User = account.User{ID: account.UserID(id), Account: p.Account}
	return p
}

// ErrDenied is what the client is told when the user says no.
var ErrDenied error = fosite.ErrAccessDenied.WithHint("The user said no.")
