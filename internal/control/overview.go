package control

import (
	"context"
	"encoding/json"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/filter"
	"steward/internal/monitor"
	"steward/internal/store"
)

// Overview are the use cases of what an account and its users are shown of
// themselves.
type Overview struct{ Deps }

// Account is the caller's. It is for unrestricted users.
func (s *Overview) Account(ctx context.Context, p account.Principal) (account.Account, error) {
	if err := unrestricted(p); err != nil {
		return account.Account{}, err
	}
	return s.Store.Account(ctx, p.Account)
}

// Logins is a page of the log-ins to the account's applications, newest first, as
// far back as the audit trail goes. It is for unrestricted users.
func (s *Overview) Logins(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.Login, int, error) {
	if err := unrestricted(p); err != nil {
		return nil, 0, err
	}
	return s.Store.Logins(ctx, p.Account, 0, q)
}

// Login is one of them.
func (s *Overview) Login(ctx context.Context, p account.Principal, id int64) (account.Login, error) {
	if err := unrestricted(p); err != nil {
		return account.Login{}, err
	}
	return s.Store.Login(ctx, p.Account, 0, id)
}

// trailShown is how far back an account's users see the audit trail, which bounds what a page of it costs; the operator's command sees all.
const trailShown = 90 * 24 * time.Hour

// Trail is a page of who changed what in the account, and what was refused, newest first. It is for unrestricted users.
func (s *Overview) Trail(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.Audit, int, error) {
	if err := unrestricted(p); err != nil {
		return nil, 0, err
	}
	return s.Store.Trail(ctx, p.Account, s.Now().Add(-trailShown), q)
}

// OwnLogins is a page of the caller's own log-ins.
func (s *Overview) OwnLogins(ctx context.Context, p account.Principal, q store.ListQuery) ([]account.Login, int, error) {
	return s.Store.Logins(ctx, p.Account, p.User.ID, q)
}

// OwnLogin is one of them.
func (s *Overview) OwnLogin(ctx context.Context, p account.Principal, id int64) (account.Login, error) {
	return s.Store.Login(ctx, p.Account, p.User.ID, id)
}

// OpenIssues are the account's outages that last, oldest first; none for restricted
// users.
func (s *Overview) OpenIssues(ctx context.Context, p account.Principal) ([]monitor.Issue, error) {
	if p.User.Restricted {
		return nil, nil
	}
	const most = 500
	open := filter.Filter{Where: &filter.Node{Op: filter.Equal, Field: "closed"}, OrderBy: "id"}
	found, _, err := s.Store.Issues(ctx, p.Account, store.ListQuery{Filter: open, Page: store.Page{Size: most}})
	return found, err
}

// Preferences are what the caller's client keeps for it: a JSON object.
func (s *Overview) Preferences(ctx context.Context, p account.Principal) (json.RawMessage, error) {
	return s.Store.Preferences(ctx, p.User.ID)
}

// mostPreferences bounds what a client may keep for a user, in bytes.
const mostPreferences = 64 << 10

// SetPreferences replaces them.
func (s *Overview) SetPreferences(ctx context.Context, p account.Principal, text json.RawMessage) error {
	if len(text) > mostPreferences {
		return fault.NewPrecondition("Preferences may have %d KB; these have %d KB.", mostPreferences>>10, (len(text)+1023)>>10)
	}
	return s.Store.SetPreferences(ctx, p.User.ID, text)
}
