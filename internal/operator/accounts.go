package operator

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/catalog"
	"steward/internal/config"
	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/wait"
)

// Accounts are what operators do with accounts, in one store.
type Accounts struct {
	*Access
	*control.Accounts
}

// OpenAccounts opens the store of a data folder, or the one at url. The configuration
// is the server's: plans have other sizes in another catalog.
func OpenAccounts(ctx context.Context, data, url string, c config.Config) (*Accounts, error) {
	plans, err := c.Catalog.Load([]catalog.Engine{})
	if err != nil {
		return nil, err
	}
	x, err := OpenAccess(ctx, data, url)
	if err != nil {
		return nil, err
	}
	return &Accounts{x, control.New(control.Deps{Store: x.store, Catalog: plans, Quotas: c.DefaultQuotas()}).Accounts}, nil
}

// OperatorDid is the line of the audit trail for a command about an account.
func OperatorDid(command string) account.Audit { return operatorDid(command, account.User{}) }

// Served reports whether somebody may be at work on the store: whether a server of the
// data folder runs, or the store is another one's.
func (x *Access) Served() bool { return !x.started }

// accountFinder is a store, or a transaction.
type accountFinder interface {
	AccountByName(ctx context.Context, name string) (account.Account, error)
}

// accountOf finds an account by its name, the first one without.
func accountOf(ctx context.Context, in accountFinder, name string) (account.Account, error) {
	a, err := in.AccountByName(ctx, cmp.Or(name, account.First))
	if fault.IsKind(err, fault.NotFound) {
		return a, fmt.Errorf("there is no account %q: `steward account list` has all", cmp.Or(name, account.First))
	}
	return a, err
}

func (x *Access) account(ctx context.Context, name string) (account.Account, error) {
	return accountOf(ctx, x.store, name)
}

// AwaitGone waits for the end of an account whose databases were deleted. Where their
// backups are kept for a while, it stays with them: kept is how many. It stays also
// until a server runs.
func (x *Accounts) AwaitGone(ctx context.Context, name string) (kept int, err error) {
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	for {
		shown, err := x.View(ctx, name)
		if fault.IsKind(err, fault.NotFound) {
			return 0, nil
		}
		if err != nil || shown.Leftovers > 0 {
			return shown.Leftovers, err
		}
		if wait.Sleep(ctx, 100*time.Millisecond) != nil {
			return 0, fmt.Errorf("%s is deleted, and what is left of it goes while the server runs", name)
		}
	}
}

// goneTime is how long the row of an account that has nothing any more may stay.
const goneTime = 15 * time.Second
