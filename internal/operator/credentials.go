package operator

import (
	"context"
	"fmt"

	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
	"steward/internal/store"
)

// RevealOptions say which credential is read, by whom and what for.
type RevealOptions struct {
	// Data is the server's folder, Store its store unless that is its own.
	Data, Store string
	config.Config
	Credential monitor.CredentialID
	Staff      string
	Purpose    string
}

// RevealCredential reads a credential of any account, after it was recorded
// who does and what for.
func RevealCredential(ctx context.Context, o RevealOptions) (store.Login, error) {
	p, err := usedPaths(o.Data, o.Config)
	if err != nil {
		return store.Login{}, err
	}
	access, err := openSealedAccess(ctx, p, o.Store, o.Config)
	if err != nil {
		return store.Login{}, err
	}
	defer access.Close(ctx)
	login, err := control.New(control.Deps{Store: access.store}).ManagedCredentials.Reveal(ctx, o.Credential, o.Staff, o.Purpose)
	if fault.IsKind(err, fault.NotFound) {
		return login, fmt.Errorf("there is no credential %d", o.Credential)
	}
	return login, err
}

// Reveals are all readings of credentials, oldest first.
func (x *Access) Reveals(ctx context.Context) ([]monitor.Reveal, error) { return x.store.Reveals(ctx) }
