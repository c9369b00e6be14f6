package control

import (
	"context"
	"strconv"
	"strings"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/limit"
)

// Logins are the use cases of users' passwords. They serve only to give an
// application access: the API itself takes tokens.
type Logins struct {
	Deps
	hasher  hasher
	limiter *limit.Limiter
}

func newLogins(d Deps) *Logins {
	attempts := limit.Options{Kind: "login", Limit: d.LoginsPerMinute, Exact: true, Shared: d.sharedRates(), Now: d.Now}
	return &Logins{d, newHasher(), limit.New(attempts)}
}

// SetPassword gives a user a password, or another one.
func (s *Logins) SetPassword(ctx context.Context, u account.User, password string) error {
	if err := ValidatePassword(u.Username, password).Err(); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.Store.SetPassword(ctx, u.ID, hash)
}

// Login finds the user of an account by name and password. An unknown name, a
// user without password and a wrong one are the same Unauthenticated, after the
// same time; the user is still told, for the audit trail. Attempts are counted by name before anything is looked up, whether
// there is such a user or not; too many are TooMany.
func (s *Logins) Login(ctx context.Context, in account.ID, username, password string) (account.User, error) {
	if len(ValidateUsername(username)) > 0 || len(password) > 4*mostPassword {
		username, password = "-", "" // can't be anybody's; takes as long
	}
	if !s.limiter.Take(ctx, strconv.FormatInt(int64(in), 10)+"/"+strings.ToLower(username)).OK {
		return account.User{}, fault.NewTooMany()
	}
	user, err := s.Store.User(ctx, in, username)
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
	ok, err := s.hasher.matches(ctx, password, hash)
	if err != nil {
		return account.User{}, err
	}
	if !known || !ok {
		return user, fault.NewUnauthenticated()
	}
	return user, nil
}
