package oauth

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ory/fosite"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/store"
)

// storage is fosite's storage over steward's. Each step of a flow runs in one
// transaction, which comes with the context: codes and refresh tokens are locked
// when they are looked at, so that of two who exchange one at once the second
// finds it used.
type storage struct {
	control *control.Control
	// consoleRedirect is the console's redirect URI, which the store doesn't have: it is
	// where this server is reached. "" where there is no console.
	consoleRedirect string
}

type txKey struct{}

func withTx(ctx context.Context, tx *store.Tx) context.Context {
	return context.WithValue(ctx, txKey{}, tx)
}

func txOf(ctx context.Context) (*store.Tx, error) {
	tx, ok := ctx.Value(txKey{}).(*store.Tx)
	if !ok {
		return nil, errors.New("a step of an OAuth flow outside of a transaction")
	}
	return tx, nil
}

// with runs f with the hash that a signature is and the step's transaction, and
// tells what isn't there in fosite's way.
func with(ctx context.Context, signature string, f func(tx *store.Tx, hash store.TokenHash) error) error {
	hash, err := hashOf(signature)
	if err != nil {
		return err
	}
	tx, err := txOf(ctx)
	if err != nil {
		return err
	}
	if err = f(tx, hash); fault.IsKind(err, fault.NotFound) {
		return fosite.ErrNotFound
	}
	return err
}

// client is a registered application as fosite sees it.
type client struct {
	account.Client
	secret []byte
}

func (c *client) GetID() string             { return string(c.ID) }
func (c *client) GetHashedSecret() []byte   { return c.secret }
func (c *client) GetRedirectURIs() []string { return []string{c.RedirectURI} }
func (c *client) IsPublic() bool            { return c.Public }

// GetScopes bounds what a user can be asked for: nothing does but the user.
func (c *client) GetScopes() fosite.Arguments        { return fosite.Arguments{"*"} }
func (c *client) GetAudience() fosite.Arguments      { return nil }
func (c *client) GetResponseTypes() fosite.Arguments { return fosite.Arguments{"code"} }
func (c *client) GetGrantTypes() fosite.Arguments {
	if c.Public {
		return fosite.Arguments{"authorization_code", "refresh_token"}
	}
	return fosite.Arguments{"authorization_code", "refresh_token", "client_credentials"}
}

// GetClient implements fosite.ClientManager.
func (s *storage) GetClient(ctx context.Context, id string) (fosite.Client, error) {
	found, secret, err := s.client(ctx, account.ClientID(id))
	if fault.IsKind(err, fault.NotFound) {
		return nil, fosite.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return &client{found, secret}, nil
}

// client is an application with the hash of its secret.
func (s *storage) client(ctx context.Context, id account.ClientID) (account.Client, []byte, error) {
	find := s.control.Authorizations.Client
	if tx, err := txOf(ctx); err == nil {
		find = tx.ClientAnywhere // a second connection for it could be one too many
	}
	found, secret, err := find(ctx, id)
	if err == nil && found.ID == account.ConsoleClient {
		found.RedirectURI = s.consoleRedirect
		if s.consoleRedirect == "" {
			err = fault.NewNotFound()
		}
	}
	return found, secret, err
}

// ClientAssertionJWTValid implements fosite.ClientManager. Clients prove
// themselves by their secret only.
func (s *storage) ClientAssertionJWTValid(context.Context, string) error {
	return fosite.ErrInvalidClient.WithHint("Clients authenticate with their secret.")
}

// SetClientAssertionJWT implements fosite.ClientManager.
func (s *storage) SetClientAssertionJWT(ctx context.Context, jti string, _ time.Time) error {
	return s.ClientAssertionJWTValid(ctx, jti)
}

func newSession(user account.UserID) *fosite.DefaultSession {
	return &fosite.DefaultSession{Subject: strconv.FormatInt(int64(user), 10)}
}

// sessionOf is a session with another user.
func sessionOf(old fosite.Session, user account.UserID) fosite.Session {
	s := newSession(user)
	s.SetExpiresAt(fosite.AccessToken, old.GetExpiresAt(fosite.AccessToken))
	return s
}

// request is what was authorized, as fosite wants it back.
func (s *storage) request(ctx context.Context, a account.Authorization, values url.Values) (fosite.Requester, error) {
	c, err := s.GetClient(ctx, string(a.Client))
	if err != nil {
		return nil, err
	}
	scopes := strings.Fields(a.Scopes.String())
	return &fosite.Request{
		ID: a.Request, RequestedAt: a.Created, Client: c, RequestedScope: scopes, GrantedScope: scopes,
		Form: values, Session: newSession(a.User),
	}, nil
}

// CreateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage. The
// authorization has been recorded before.
func (s *storage) CreateAuthorizeCodeSession(ctx context.Context, code string, r fosite.Requester) error {
	return with(ctx, code, func(tx *store.Tx, hash store.TokenHash) error {
		return tx.CreateCode(ctx, hash, r.GetID(), r.GetRequestForm().Get("redirect_uri"), r.GetSession().GetExpiresAt(fosite.AuthorizeCode))
	})
}

// GetAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (s *storage) GetAuthorizeCodeSession(ctx context.Context, code string, _ fosite.Session) (r fosite.Requester, err error) {
	err = with(ctx, code, func(tx *store.Tx, hash store.TokenHash) error {
		found, err := tx.LockCode(ctx, hash)
		if err != nil {
			return err
		}
		values := url.Values{}
		if found.RedirectURI != "" && !isClassic(ctx) {
			values.Set("redirect_uri", found.RedirectURI)
		}
		if r, err = s.request(ctx, found.Authorization, values); err == nil && found.Used {
			err = fosite.ErrInvalidatedAuthorizeCode
		}
		return err
	})
	return r, err
}

// InvalidateAuthorizeCodeSession implements oauth2.AuthorizeCodeStorage.
func (s *storage) InvalidateAuthorizeCodeSession(ctx context.Context, code string) error {
	return with(ctx, code, func(tx *store.Tx, hash store.TokenHash) error { return tx.UseCode(ctx, hash) })
}

// CreatePKCERequestSession implements pkce.PKCERequestStorage; the method has
// been found to be S256.
func (s *storage) CreatePKCERequestSession(ctx context.Context, code string, r fosite.Requester) error {
	return with(ctx, code, func(tx *store.Tx, hash store.TokenHash) error {
		return tx.SetCodeChallenge(ctx, hash, r.GetRequestForm().Get("code_challenge"))
	})
}

// GetPKCERequestSession implements pkce.PKCERequestStorage.
func (s *storage) GetPKCERequestSession(ctx context.Context, code string, _ fosite.Session) (r fosite.Requester, err error) {
	err = with(ctx, code, func(tx *store.Tx, hash store.TokenHash) error {
		found, err := tx.LockCode(ctx, hash)
		if err != nil {
			return err
		}
		if found.Challenge == "" {
			return fosite.ErrNotFound
		}
		r, err = s.request(ctx, found.Authorization, url.Values{"code_challenge": {found.Challenge}, "code_challenge_method": {"S256"}})
		return err
	})
	return r, err
}

// DeletePKCERequestSession implements pkce.PKCERequestStorage. The challenge goes
// with its code: were it gone after a wrong verifier, the next attempt would need none.
func (s *storage) DeletePKCERequestSession(context.Context, string) error { return nil }

// CreateAccessTokenSession implements oauth2.AccessTokenStorage.
func (s *storage) CreateAccessTokenSession(ctx context.Context, signature string, r fosite.Requester) error {
	scopes, err := account.ParseScopes(strings.Join(r.GetGrantedScopes(), " "))
	if err != nil {
		return err
	}
	return with(ctx, signature, func(tx *store.Tx, hash store.TokenHash) error {
		return tx.CreateAccessToken(ctx, hash, r.GetID(), scopes, r.GetSession().GetExpiresAt(fosite.AccessToken))
	})
}

// GetAccessTokenSession implements oauth2.AccessTokenStorage.
func (s *storage) GetAccessTokenSession(ctx context.Context, signature string, _ fosite.Session) (r fosite.Requester, err error) {
	err = with(ctx, signature, func(tx *store.Tx, hash store.TokenHash) error {
		found, err := tx.AccessToken(ctx, hash)
		if err != nil {
			return err
		}
		r, err = s.request(ctx, found, nil)
		return err
	})
	return r, err
}

// DeleteAccessTokenSession implements oauth2.AccessTokenStorage; no flow that is
// offered calls it.
func (s *storage) DeleteAccessTokenSession(context.Context, string) error {
	return errors.New("access tokens go with their authorization")
}

// CreateRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (s *storage) CreateRefreshTokenSession(ctx context.Context, signature, _ string, r fosite.Requester) error {
	return with(ctx, signature, func(tx *store.Tx, hash store.TokenHash) error {
		return tx.CreateRefreshToken(ctx, hash, r.GetID(), r.GetSession().GetExpiresAt(fosite.RefreshToken))
	})
}

// GetRefreshTokenSession implements oauth2.RefreshTokenStorage.
func (s *storage) GetRefreshTokenSession(ctx context.Context, signature string, _ fosite.Session) (r fosite.Requester, err error) {
	err = with(ctx, signature, func(tx *store.Tx, hash store.TokenHash) error {
		found, used, err := tx.LockRefreshToken(ctx, hash)
		if err != nil {
			return err
		}
		if r, err = s.request(ctx, found, nil); err == nil && used {
			err = fosite.ErrInactiveToken
		}
		return err
	})
	return r, err
}

// DeleteRefreshTokenSession implements oauth2.RefreshTokenStorage. It is called
// for one that was used twice, before its whole family ends.
func (s *storage) DeleteRefreshTokenSession(context.Context, string) error { return nil }

// RotateRefreshToken implements oauth2.RefreshTokenStorage: the old refresh token
// and the access tokens that came before are no good any more.
func (s *storage) RotateRefreshToken(ctx context.Context, request, signature string) error {
	return with(ctx, signature, func(tx *store.Tx, hash store.TokenHash) error {
		if err := tx.DeleteAccessTokens(ctx, request); err != nil {
			return err
		}
		return tx.UseRefreshToken(ctx, hash)
	})
}

// RevokeRefreshToken implements oauth2.TokenRevocationStorage: it ends the family.
func (s *storage) RevokeRefreshToken(ctx context.Context, request string) error {
	tx, err := txOf(ctx)
	if err != nil {
		return err
	}
	if err = tx.EndAuthorization(ctx, request); fault.IsKind(err, fault.NotFound) {
		return nil // its partner was first
	}
	return err
}

// RevokeAccessToken implements oauth2.TokenRevocationStorage: it ends the family.
func (s *storage) RevokeAccessToken(ctx context.Context, request string) error {
	return s.RevokeRefreshToken(ctx, request)
}
