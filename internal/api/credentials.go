package api

import (
	"context"
	"net/http"

	"steward/internal/control"
	"steward/internal/monitor"
	"steward/internal/seal"
	"steward/internal/store"
)

// credentialView never has what is sealed.
type credentialView struct {
	ID            int64   `json:"id"`
	Label         string  `json:"label"`
	LastDecrypted *string `json:"last_decrypted" format:"date-time" doc:"When support staff last read it; null for never."`
}

func showCredential(c monitor.Credential) credentialView {
	return credentialView{int64(c.ID), c.Label, optionalTime(c.LastDecrypted)}
}

type credentialCreate struct {
	Label    string           `json:"label" minLength:"2" maxLength:"75"`
	Username optional[string] `json:"username,omitzero" maxLength:"5000" writeOnly:"true"`
	Password *string          `json:"password" minLength:"1" maxLength:"5000" nullable:"false" writeOnly:"true"`
}

type credentialUpdate struct {
	Label *string `json:"label,omitempty" minLength:"2" maxLength:"75"`
}

type loginUpdate struct {
	Username optional[string] `json:"username,omitzero" maxLength:"5000" writeOnly:"true" doc:"null takes it away; left out, it stays."`
	Password *string          `json:"password" minLength:"1" maxLength:"5000" nullable:"false" writeOnly:"true"`
}

func (b loginUpdate) change() control.LoginChange {
	return control.LoginChange{Username: secret(b.Username.orZero()), Password: secret(b.Password)}
}

// secret hides a text of a body, nil for none.
func secret(text *string) *seal.Secret {
	if text == nil {
		return nil
	}
	return new(seal.NewSecret(*text))
}

type credentialPath struct {
	ID int64 `path:"credentialId" minimum:"1"`
}

func (a *API) registerCredentials() {
	credentials := a.Control.ManagedCredentials
	const all, one, tag = "/v4/managed/credentials", "/v4/managed/credentials/{credentialId}", "Credentials"
	registerList(a, endpoint{method: http.MethodGet, path: all, id: "listCredentials", summary: "List credentials", tag: tag, scope: readAccount},
		store.CredentialFields, credentials.List, showCredential)
	register(a, endpoint{method: http.MethodPost, path: all, id: "createCredential", summary: "Give a user name and a password into the service's care", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[none, credentialCreate]) (credentialView, error) {
			in := loginUpdate{c.Body.Username, c.Body.Password}
			made, err := credentials.Create(ctx, c.Principal, c.Body.Label, in.change(), c.Faults)
			return showCredential(made), err
		})
	register(a, endpoint{method: http.MethodGet, path: one, id: "viewCredential", summary: "View a credential", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[credentialPath, none]) (credentialView, error) {
			found, err := credentials.View(ctx, c.Principal, monitor.CredentialID(c.In.ID))
			return showCredential(found), err
		})
	register(a, endpoint{method: http.MethodPut, path: one, id: "updateCredential", summary: "Relabel a credential", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[credentialPath, credentialUpdate]) (credentialView, error) {
			changed, err := credentials.Relabel(ctx, c.Principal, monitor.CredentialID(c.In.ID), c.Body.Label, c.Faults)
			return showCredential(changed), err
		})
	register(a, endpoint{method: http.MethodPost, path: one + "/update", id: "updateCredentialLogin", summary: "Replace a credential's password, and its user name", tag: tag, scope: writeAccount},
		func(ctx context.Context, c call[credentialPath, loginUpdate]) (empty, error) {
			return empty{}, credentials.SetLogin(ctx, c.Principal, monitor.CredentialID(c.In.ID), c.Body.change(), c.Faults)
		})
	remove := func(ctx context.Context, c call[credentialPath, none]) (empty, error) {
		return empty{}, credentials.Delete(ctx, c.Principal, monitor.CredentialID(c.In.ID))
	}
	register(a, endpoint{method: http.MethodDelete, path: one, id: "deleteCredential", summary: "Delete a credential; services that name it lose it", tag: tag, scope: writeAccount}, remove)
	register(a, endpoint{method: http.MethodPost, path: one + "/revoke", id: "revokeCredential", summary: "Delete a credential, as existing clients ask for it", tag: tag, scope: writeAccount}, remove)
}
