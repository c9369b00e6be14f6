package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"steward/internal/account"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/datadir"
	"steward/internal/embeddedpg"
	"steward/internal/fault"
	"steward/internal/operation"
	"steward/internal/seal"
	"steward/internal/store"
)

// Access is the store as the operator's commands use it, beside a server that
// runs or without one.
type Access struct {
	store    *store.Store
	embedded *embeddedpg.Server
	// started reports whether the store ran for this command only.
	started bool
	// sealer is nil when it isn't the Access's to close.
	sealer *seal.Sealer
}

// OpenAccess opens the store of a data folder, or the one at url, without its secrets.
func OpenAccess(ctx context.Context, data, url string) (*Access, error) {
	if url != "" {
		return openAccess(ctx, datadir.Dir{}, url, nil)
	}
	if _, err := os.Stat(datadir.Dir{Data: data}.Store()); errors.Is(err, fs.ErrNotExist) { // a folder that isn't meant gets no store of its own
		return nil, fmt.Errorf("there is no store in the data folder %s: name the one that steward serves by --data, or an own store by --store", data)
	}
	p, err := datadir.Open(data)
	if err != nil {
		return nil, err
	}
	return openAccess(ctx, p, url, nil)
}

// usedPaths are those of a data folder that a server has used: its seal key is
// there, and isn't made.
func usedPaths(data string, c config.Config) (datadir.Dir, error) {
	if err := demand("seal key of the data folder (--data)", cmp.Or(c.Seal.URL, datadir.Dir{Data: data}.SealKey())); err != nil {
		return datadir.Dir{}, err
	}
	return datadir.Open(data)
}

// openSealedAccess opens the store with its secrets.
func openSealedAccess(ctx context.Context, p datadir.Dir, url string, c config.Config) (*Access, error) {
	sealer, err := p.OpenSealer(ctx, c)
	if err != nil {
		return nil, err
	}
	x, err := openAccess(ctx, p, url, sealer)
	if err != nil {
		return nil, errors.Join(err, sealer.Close())
	}
	x.sealer = sealer
	return x, nil
}

func openAccess(ctx context.Context, p datadir.Dir, url string, sealer store.Sealer) (_ *Access, err error) {
	x := &Access{}
	log := slog.New(slog.DiscardHandler)
	if url == "" {
		_, served := datadir.ServerPID(p.Data)
		x.started = !served
		if served {
			url = embeddedpg.URL(p.Store(), p.StoreRun())
		} else {
			x.embedded, err = embeddedpg.Start(ctx, embeddedpg.Options{Dir: p.Store(), RunDir: p.StoreRun(), Logger: log})
			if err != nil {
				return nil, err
			}
			url = x.embedded.URL()
		}
	}
	if x.store, err = store.Open(ctx, store.Options{URL: url, Sealer: sealer, Logger: log, MaxConns: 2}); err != nil {
		x.Close(ctx)
		return nil, err
	}
	return x, nil
}

// Close closes the store, and ends it when it was started for this command.
func (x *Access) Close(ctx context.Context) {
	if x.store != nil {
		x.store.Close()
	}
	if x.embedded != nil {
		_ = x.embedded.Stop(context.WithoutCancel(ctx)) // it recovers at the next start
	}
	if x.sealer != nil {
		_ = x.sealer.Close() // it was only asked
	}
}

// CreateUser adds a user to the named account, or to the first one.
func (x *Access) CreateUser(ctx context.Context, of, name, email string, restricted, addDatabases bool) error {
	faults := append(control.ValidateUsername(name), control.ValidateEmail(email)...)
	if addDatabases && !restricted {
		faults.Add("grant", "only restricted users need grants: add --restricted")
	}
	if err := faults.Err(); err != nil {
		return err
	}
	return x.store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.EnsureAdmin(ctx); err != nil {
			return err
		}
		owner, err := accountOf(ctx, tx, of)
		if err != nil {
			return err
		}
		if owner, err = tx.HoldAccount(ctx, owner.ID); err != nil {
			return err
		}
		if owner.Status == account.Deleting {
			return fmt.Errorf("the account %s is being deleted", owner.Name)
		}
		made, err := tx.CreateUser(ctx, account.User{
			Account: owner.ID, Username: name, Email: email, Restricted: restricted, AddDatabases: addDatabases,
		})
		if err != nil {
			return err
		}
		if err := control.Happened(ctx, tx, "", control.OfUser(operation.PersonCreate, made)); err != nil {
			return err
		}
		return tx.AddAudit(ctx, operatorDid("steward user create", made))
	})
}

// user finds one of the named account, or of any when none is named and no two have
// one of the name.
func (x *Access) user(ctx context.Context, of, name string) (user account.User, err error) {
	if of == "" {
		user, err = x.store.UserAnywhere(ctx, name)
	} else {
		var owner account.Account
		if owner, err = accountOf(ctx, x.store, of); err != nil {
			return user, err
		}
		user, err = x.store.User(ctx, owner.ID, name)
	}
	switch {
	case fault.IsKind(err, fault.NotFound):
		return user, fmt.Errorf("there is no user %q; make it with `steward user create %s --email …`", name, name)
	case fault.IsKind(err, fault.Precondition):
		return user, fmt.Errorf("more than one account has a user %s: say which with --account", name)
	}
	return user, err
}

// SetPassword gives a user the password to log in to OAuth clients with.
func (x *Access) SetPassword(ctx context.Context, of, username, password string) error {
	user, err := x.user(ctx, of, username)
	if err != nil {
		return err
	}
	if err := control.New(control.Deps{Store: x.store}).Logins.SetPassword(ctx, user, password); err != nil {
		return err
	}
	return x.store.AddAudit(ctx, operatorDid("steward user passwd", user))
}

// MakeLoginLink makes the secret of a link with which the user sets a password.
func (x *Access) MakeLoginLink(ctx context.Context, of, username string) (string, error) {
	user, err := x.user(ctx, of, username)
	if err != nil {
		return "", err
	}
	secret, err := control.New(control.Deps{Store: x.store}).Logins.MakeLink(ctx, user)
	if err != nil {
		return "", err
	}
	return secret, x.store.AddAudit(ctx, operatorDid("steward user link", user))
}

// DropFactor takes a user's second factor away.
func (x *Access) DropFactor(ctx context.Context, of, username string) error {
	user, err := x.user(ctx, of, username)
	if err != nil {
		return err
	}
	err = control.New(control.Deps{Store: x.store}).Logins.DropFactor(ctx, user)
	if fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("%s has no second factor", username)
	}
	if err != nil {
		return err
	}
	return x.store.AddAudit(ctx, operatorDid("steward user tfa-disable", user))
}

// CreateToken makes a token for any user and returns its text.
func (x *Access) CreateToken(ctx context.Context, of, username, label, scopes string, expires time.Duration) (string, error) {
	user, err := x.user(ctx, of, username)
	if err != nil {
		return "", err
	}
	if expires < 0 {
		return "", errors.New("--expires must not be negative")
	}
	in := control.NewToken{Label: label, Scopes: scopes}
	if expires > 0 {
		in.Expiry = new(time.Now().Add(expires))
	}
	text, err := control.New(control.Deps{Store: x.store}).Tokens.CreateFor(ctx, user, in)
	if err != nil {
		return "", err
	}
	return text, x.store.AddAudit(ctx, operatorDid("steward token create", user))
}
