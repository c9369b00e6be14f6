package api

import (
	"context"
	"net/http"

	"steward/internal/account"
	"steward/internal/control"
	"steward/internal/store"
)

type tokenView struct {
	ID      int64   `json:"id"`
	Label   string  `json:"label"`
	Scopes  string  `json:"scopes"`
	Created string  `json:"created" format:"date-time"`
	Expiry  *string `json:"expiry" format:"date-time" doc:"null: never."`
	Token   string  `json:"token" doc:"Whole in the answer that makes it, the first 16 characters afterwards."`
}

func showToken(t account.Token) tokenView {
	return tokenView{int64(t.ID), t.Label, t.Scopes.String(), showTime(t.Created), optionalTime(t.Expiry), t.Prefix}
}

type tokenCreate struct {
	Label  string  `json:"label" minLength:"1" maxLength:"100"`
	Scopes string  `json:"scopes" doc:"* or area:access, separated by spaces or commas."`
	Expiry *string `json:"expiry,omitempty" nullable:"true"`
}

type tokenUpdate struct {
	Label *string `json:"label,omitempty" minLength:"1" maxLength:"100"`
}

type tokenPath struct {
	ID int64 `path:"tokenId" minimum:"1"`
}

func (a *API) registerTokens() {
	tokens := a.Control.Tokens
	const all, one = "/v4/profile/tokens", "/v4/profile/tokens/{tokenId}"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listTokens", summary: "List your tokens", tag: "Profile", scope: readAccount, own: true, secret: true},
		store.TokenFields, tokens.List, showToken)
	register(a, endpoint{method: http.MethodPost, path: all, id: "createToken", summary: "Create a token", tag: "Profile", scope: writeAccount, own: true, secret: true},
		func(ctx context.Context, c call[none, tokenCreate]) (tokenView, error) {
			in := control.NewToken{Label: c.Body.Label, Scopes: c.Body.Scopes, Expiry: parseTime("expiry", c.Body.Expiry, &c.Faults)}
			made, text, err := tokens.Create(ctx, c.Principal, in, c.Faults)
			if err != nil {
				return tokenView{}, err
			}
			v := showToken(made)
			v.Token = text
			return v, nil
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewToken", summary: "View a token", tag: "Profile", scope: readAccount, own: true, secret: true},
		func(ctx context.Context, c call[tokenPath, none]) (tokenView, error) {
			found, err := tokens.View(ctx, c.Principal, account.TokenID(c.In.ID))
			return showToken(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateToken", summary: "Relabel a token", tag: "Profile", scope: writeAccount, own: true, secret: true},
		func(ctx context.Context, c call[tokenPath, tokenUpdate]) (tokenView, error) {
			changed, err := tokens.Relabel(ctx, c.Principal, account.TokenID(c.In.ID), c.Body.Label, c.Faults)
			return showToken(changed), err
		})
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteToken", summary: "Revoke a token", tag: "Profile", scope: writeAccount, own: true},
		func(ctx context.Context, c call[tokenPath, none]) (empty, error) {
			return empty{}, tokens.Delete(ctx, c.Principal, account.TokenID(c.In.ID))
		})
}
