package seal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"gocloud.dev/secrets"
	_ "gocloud.dev/secrets/hashivault" // hashivault:// by VAULT_SERVER_URL and VAULT_SERVER_TOKEN; adds 2 MB, the clouds' would add tens
	"gocloud.dev/secrets/localsecrets"
)

// Open opens the key service: a keeper's URL, or the path of a file with the
// keys, which is made with one when it isn't there.
func Open(ctx context.Context, where string) (*Sealer, error) {
	if !strings.Contains(where, "://") {
		keys, err := openKeyFile(where)
		if err != nil {
			return nil, err
		}
		return newSealer(keys), nil
	}
	keeper, err := openKeeper(ctx, where)
	if err != nil {
		return nil, err
	}
	return newSealer(&service{keeper, renewal}), nil
}

// openKeeper never puts the URL into an error: it may hold the key.
func openKeeper(ctx context.Context, where string) (*secrets.Keeper, error) {
	u, err := url.Parse(where)
	if err != nil {
		return nil, errors.New("open key service: not a valid URL")
	}
	mux := secrets.DefaultURLMux()
	if !mux.ValidKeeperScheme(u.Scheme) {
		return nil, fmt.Errorf("open key service: scheme %q is not one of %s; a path without a scheme is a key file",
			u.Scheme, strings.Join(mux.KeeperSchemes(), ", "))
	}
	if u.Scheme == localsecrets.Scheme && u.Host == "" {
		// It would take a random key that nobody keeps.
		return nil, fmt.Errorf("open key service: %s:// without a key", u.Scheme)
	}
	keeper, err := mux.OpenKeeperURL(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("open key service %s: %w", u.Scheme, err)
	}
	return keeper, nil
}
