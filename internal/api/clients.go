package api

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/store"
)

// clientView is an OAuth client. Members that existing clients read and steward
// has nothing to say about have their neutral values.
type clientView struct {
	ID           string  `json:"id"`
	Label        string  `json:"label"`
	RedirectURI  string  `json:"redirect_uri"`
	Public       bool    `json:"public"`
	Status       string  `json:"status" enum:"active"`
	Secret       string  `json:"secret" doc:"Whole in the answer that makes it, never again. Public clients have none."`
	ThumbnailURL *string `json:"thumbnail_url"`
}

// hiddenSecret stands where there is a secret that isn't shown.
const hiddenSecret = "<REDACTED>"

func showClient(c account.Client) clientView {
	v := clientView{ID: string(c.ID), Label: c.Label, RedirectURI: c.RedirectURI, Public: c.Public, Status: "active"}
	if !c.Public {
		v.Secret = hiddenSecret
	}
	return v
}

func showClientSecret(c account.Client, secret string, err error) (clientView, error) {
	v := showClient(c)
	v.Secret = secret
	return v, err
}

type clientCreate struct {
	Label       string `json:"label" minLength:"1" maxLength:"100"`
	RedirectURI string `json:"redirect_uri" minLength:"1" maxLength:"512" doc:"Where users are sent back to, compared exactly. https, http to localhost, or an application's own scheme."`
	Public      *bool  `json:"public,omitempty" default:"false" doc:"It can't keep a secret, has none, and must use PKCE."`
}

type clientUpdate struct {
	Label       *string `json:"label,omitempty" minLength:"1" maxLength:"100"`
	RedirectURI *string `json:"redirect_uri,omitempty" minLength:"1" maxLength:"512"`
}

type clientPath struct {
	ID string `path:"clientId"`
}

func (p clientPath) id() account.ClientID { return account.ClientID(p.ID) }

func (a *API) registerClients() {
	clients := a.Control.Clients
	const all, one, tag = "/v4/account/oauth-clients", "/v4/account/oauth-clients/{clientId}", "OAuth clients"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listClients", summary: "List OAuth clients", tag: tag, scope: readAccount, own: true, secret: true},
		store.ClientFields, clients.List, showClient)
	register(a, endpoint{method: http.MethodPost, path: all, id: "createClient", summary: "Register an OAuth client", tag: tag, scope: writeAccount, own: true, secret: true},
		func(ctx context.Context, c call[none, clientCreate]) (clientView, error) {
			in := control.ClientChange{Label: &c.Body.Label, RedirectURI: &c.Body.RedirectURI, Public: orDefault(c.Body.Public, false)}
			return showClientSecret(clients.Create(ctx, c.Principal, in, c.Faults))
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewClient", summary: "View an OAuth client", tag: tag, scope: readAccount, own: true, secret: true},
		func(ctx context.Context, c call[clientPath, none]) (clientView, error) {
			found, err := clients.View(ctx, c.Principal, c.In.id())
			return showClient(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateClient", summary: "Change an OAuth client", tag: tag, scope: writeAccount, own: true, secret: true},
		func(ctx context.Context, c call[clientPath, clientUpdate]) (clientView, error) {
			in := control.ClientChange{Label: c.Body.Label, RedirectURI: c.Body.RedirectURI}
			changed, err := clients.Update(ctx, c.Principal, c.In.id(), in, c.Faults)
			return showClient(changed), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteClient", summary: "Remove an OAuth client and all its tokens", tag: tag, scope: writeAccount, own: true},
		func(ctx context.Context, c call[clientPath, none]) (empty, error) {
			return empty{}, clients.Delete(ctx, c.Principal, c.In.id())
		})
	reset := func(path, id string) {
		register(a, endpoint{method: http.MethodPost, path: one + path, id: id, summary: "Give an OAuth client another secret", tag: tag, scope: writeAccount, secret: true},
			func(ctx context.Context, c call[clientPath, none]) (clientView, error) {
				return showClientSecret(clients.ResetSecret(ctx, c.Principal, c.In.id()))
			})
	}
	reset("/reset-secret", "resetClientSecret")
	reset("/reset_secret", "resetClientSecretAlias") // as some clients write it
}
