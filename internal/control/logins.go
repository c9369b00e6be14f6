package control

import (
	"context"
	"strconv"
	"strings"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/limit"
	"steward/internal/operation"
	"steward/internal/store"
)

// Logins are the use cases of users' passwords. They serve only to give an
// application access: the API itself takes tokens.
type Logins struct {
	Deps
	hasher  hasher
	limiter *limit.Limiter
	lane    *slowLane
}

// Attempt is a log-in that somebody tries, to an account's applications.
type Attempt struct {
	// Account is 0 for the console, which is every account's: the account's name then
	// stands before the user's, with a slash between; without, the first is meant.
	Account            account.ID
	Username, Password string
	// Address is where it comes from, and Suspect that too many that failed did.
	Address string
	Suspect bool
}

func newLogins(d Deps) *Logins {
	attempts := limit.Options{Kind: "login", Limit: d.LoginsPerMinute, Exact: true, Shared: d.SharedRates, Now: d.Now}
	return &Logins{d, newHasher(d.PasswordCost), limit.New(attempts), newSlowLane()}
}

// SetPassword gives a user a password, or another one. It is the operator's.
func (s *Logins) SetPassword(ctx context.Context, u account.User, password string) error {
	if err := ValidatePassword(u.Username, password).Err(); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.SetPassword(ctx, u.ID, hash); err != nil {
			return err
		}
		return Happened(ctx, tx, "", OfUser(operation.PersonUpdate, u))
	})
}

// Login finds the user of an account by name and password. An unknown name, a
// user without password and a wrong one are the same Unauthenticated, after the
// same time; the user is still told, for the audit trail. Those that fail are counted
// by name, whether there is such a user or not, and past the limit they are TooMany:
// a right password then waits in the slow lane.
func (s *Logins) Login(ctx context.Context, a Attempt) (account.User, error) {
	a, err := s.resolve(ctx, a)
	if err != nil {
		return account.User{}, err
	}
	if len(ValidateUsername(a.Username)) > 0 || len(a.Password) > 4*mostPassword {
		a.Username, a.Password = "-", "" // can't be anybody's; takes as long
	}
	key := strconv.FormatInt(int64(a.Account), 10) + "/" + strings.ToLower(a.Username)
	late := a.Suspect || !s.limiter.Peek(key).OK
	if late {
		leave, ok := s.lane.enter(ctx, limit.AddressKey(a.Address))
		if !ok {
			return account.User{}, fault.NewTooMany()
		}
		defer leave()
	}
	user, err := s.verify(ctx, a)
	if fault.IsKind(err, fault.Unauthenticated) && (!s.limiter.Take(ctx, key).OK || late) {
		err = fault.NewTooMany()
	}
	return user, err
}

// resolve finds the account of an attempt that names it. One that isn't there, or isn't
// served, is 0, which no user is of.
func (s *Logins) resolve(ctx context.Context, a Attempt) (Attempt, error) {
	if a.Account != 0 {
		return a, nil
	}
	name, username, named := strings.Cut(a.Username, "/")
	if !named {
		name, username = account.First, a.Username
	}
	found, err := s.Store.AccountByName(ctx, name)
	if err != nil && !fault.IsKind(err, fault.NotFound) {
		return a, err
	}
	a.Username = username
	if err == nil && found.Status == account.Active {
		a.Account = found.ID
	}
	return a, nil
}

func (s *Logins) verify(ctx context.Context, a Attempt) (account.User, error) {
	user, err := s.Store.User(ctx, a.Account, a.Username)
	known := err == nil
	if err != nil && !fault.IsKind(err, fault.NotFound) {
		return account.User{}, err
	}
	hash := ""
	if known {
		if hash, err = s.Store.Password(ctx, user.ID); err != nil {
			return account.User{}, err
		}
	}
	ok, err := s.hasher.matches(ctx, a.Password, hash)
	if err != nil {
		return account.User{}, err
	}
	if !known || !ok {
		return user, fault.NewUnauthenticated()
	}
	return user, nil
}
