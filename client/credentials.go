package client

import (
	"context"
	"fmt"
	"net/http"
)

const credentials = "/v4/managed/credentials"

// ManagedCredential is a user name and a password that support staff can read.
// The API never answers either.
type ManagedCredential struct {
	ID    int64  `json:"id"`
	Label string `json:"label"`
	// LastDecrypted is when staff last read it, "" for never.
	LastDecrypted string `json:"last_decrypted"`
}

// CreateCredential is a create request; a user name may be left out.
type CreateCredential struct {
	Label    string `json:"label"`
	Username string `json:"username,omitempty"`
	Password string `json:"password"`
}

// SetLogin puts a new password in place of the old one, and a new user name
// unless it is nil; "" takes it away.
type SetLogin struct {
	Username *string `json:"username,omitempty"`
	Password string  `json:"password"`
}

func (c ManagedCredential) path() string { return fmt.Sprintf("%s/%d", credentials, c.ID) }

// ManagedCredentials are all of the account's.
func (c *Client) ManagedCredentials(ctx context.Context) ([]ManagedCredential, error) {
	return list[ManagedCredential](ctx, c, credentials, 0)
}

// FindCredential looks a credential up by id or label.
func (c *Client) FindCredential(ctx context.Context, idOrLabel string) (ManagedCredential, error) {
	return find(ctx, c.ManagedCredentials, "credential", idOrLabel, func(one ManagedCredential) (int64, []string) { return one.ID, []string{one.Label} })
}

// CreateCredential gives a user name and a password into the service's care.
func (c *Client) CreateCredential(ctx context.Context, in CreateCredential) (ManagedCredential, error) {
	return ask[ManagedCredential](ctx, c, http.MethodPost, credentials, in)
}

// RelabelCredential changes what a credential is called.
func (c *Client) RelabelCredential(ctx context.Context, one ManagedCredential, label string) (ManagedCredential, error) {
	return ask[ManagedCredential](ctx, c, http.MethodPut, one.path(), map[string]string{"label": label})
}

// SetLogin replaces a credential's password, and its user name if asked to.
func (c *Client) SetLogin(ctx context.Context, one ManagedCredential, in SetLogin) error {
	return c.do(ctx, http.MethodPost, one.path()+"/update", in, nil)
}

// DeleteCredential deletes a credential; services that name it lose it.
func (c *Client) DeleteCredential(ctx context.Context, one ManagedCredential) error {
	return c.do(ctx, http.MethodDelete, one.path(), nil, nil)
}
