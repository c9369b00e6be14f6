package store_test

import (
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestConsoleSessions: a session is the application that its token belongs to, as its user sees it, and both end together.
func TestConsoleSessions(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now := start
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	ctx := t.Context()
	u, foreign := newAccount(t, s, "a"), newAccount(t, s, "b")
	open := func(name string) account.Principal {
		t.Helper()
		err := s.InTx(ctx, func(tx *store.Tx) error {
			if err := tx.CreateAuthorization(ctx, account.Authorization{
				Request: name, Client: account.ConsoleClient, User: u.ID, Scopes: account.FullScopes(), Origin: account.Origin{Browser: name, Address: "192.0.2.1"},
			}); err != nil {
				return err
			}
			return tx.CreateAccessToken(ctx, hashOf(name), name, account.FullScopes(), start.Add(30*24*time.Hour))
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.Principal(ctx, hashOf(name))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CreateConsoleSession(ctx, store.ConsoleSession{Hash: hashOf("cookie of " + name), Sealed: []byte("x")}, p.Token); err != nil {
			t.Fatal(err)
		}
		return p
	}
	old := open("Firefox")
	now = now.Add(time.Hour)
	mine := open("Chrome")
	seen := func(token account.TokenID) map[string]account.App {
		t.Helper()
		all, _, err := s.Apps(ctx, u.ID, token, store.ListQuery{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]account.App{}
		for _, a := range all {
			found[a.Browser] = a
		}
		return found
	}
	apps := seen(mine.Token)
	if a := apps["Firefox"]; len(apps) != 2 || a.Current || a.Address != "192.0.2.1" || a.LastUsed == nil || !a.LastUsed.Equal(start) || !apps["Chrome"].Current {
		t.Errorf("%+v", apps)
	}
	if !seen(old.Token)["Firefox"].Current {
		t.Error("another's token is the current one")
	}
	if all, _, err := s.Apps(ctx, foreign.ID, mine.Token, store.ListQuery{}); err != nil || len(all) != 0 {
		t.Errorf("a stranger sees %+v, %v", all, err)
	}
	// What wasn't used goes whole; what is used stays.
	if err := s.PurgeConsole(ctx, start.Add(time.Minute), start.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if apps := seen(mine.Token); len(apps) != 1 || !apps["Chrome"].Current {
		t.Errorf("after a session's time: %+v", apps)
	}
	if _, err := s.Principal(ctx, hashOf("Firefox")); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("the token of a session that is over: %v", err)
	}
	if err := s.DeleteApp(ctx, u.ID, apps["Chrome"].ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ConsoleSession(ctx, hashOf("cookie of Chrome"), start, start); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("the session of what was taken back: %v", err)
	}
}
