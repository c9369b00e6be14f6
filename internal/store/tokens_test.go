package store_test

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func hashOf(text string) store.TokenHash { return sha256.Sum256([]byte(text)) }

func TestTokens(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := pgtest.Store(t, pgtest.WithNow(func() time.Time { return now }))
	ctx := t.Context()
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	scopes, err := account.ParseScopes("events:read_only databases:read_write")
	if err != nil {
		t.Fatal(err)
	}
	expiry := now.Add(time.Hour)
	made, err := s.CreateToken(ctx, account.Token{User: a.ID, Label: "l", Prefix: "0123456789abcdef", Scopes: scopes, Expiry: &expiry}, hashOf("secret"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Token(ctx, a.ID, made.ID)
	if diff := cmp.Diff(made, got); err != nil || diff != "" {
		t.Errorf("%v -made +read\n%s", err, diff)
	}
	if _, err := s.CreateToken(ctx, account.Token{User: b.ID, Scopes: scopes}, hashOf("secret")); err == nil {
		t.Error("one token stands for two users")
	}
	p, err := s.Principal(ctx, hashOf("secret"))
	want := account.Principal{Status: account.Active, Account: a.Account, User: a, Token: made.ID, Scopes: scopes, TokenExpiry: &expiry}
	want.User.Created, p.User.Created = time.Time{}, time.Time{}
	if diff := cmp.Diff(want, p); err != nil || diff != "" {
		t.Errorf("%v -want +got\n%s", err, diff)
	}
	for name, try := range map[string]func() error{
		"view":    func() error { _, err := s.Token(ctx, b.ID, made.ID); return err },
		"relabel": func() error { return s.RelabelToken(ctx, b.ID, made.ID, "mine") },
		"delete":  func() error { return s.DeleteToken(ctx, b.ID, made.ID) },
		"unknown": func() error { _, err := s.Principal(ctx, hashOf("guess")); return err },
	} {
		if err := try(); !fault.IsKind(err, fault.NotFound) {
			t.Errorf("%s of another's token: %v", name, err)
		}
	}
	if err := s.RelabelToken(ctx, a.ID, made.ID, "new"); err != nil {
		t.Fatal(err)
	}
	check := func(when string, listed int) {
		t.Helper()
		list, total, err := s.Tokens(ctx, a.ID, store.ListQuery{})
		if err != nil || len(list) != listed || total != listed || listed == 1 && list[0].Label != "new" {
			t.Errorf("%s: %v, %d, %v", when, list, total, err)
		}
		if _, err := s.Principal(ctx, hashOf("secret")); (err == nil) != (listed == 1) {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := s.Token(ctx, a.ID, made.ID); (err == nil) != (listed == 1) {
			t.Errorf("%s: %v", when, err)
		}
	}
	now = expiry.Add(-time.Microsecond)
	check("at its last moment", 1)
	now = expiry
	check("expired", 0)
	if n, err := s.TokenCount(ctx, a.ID); err != nil || n != 1 {
		t.Errorf("count %d, %v", n, err)
	}
	now = expiry.Add(-time.Minute)
	if err := s.DeleteToken(ctx, a.ID, made.ID); err != nil {
		t.Fatal(err)
	}
	check("revoked", 0)
}

func TestTokensGoWithTheirUser(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	if _, err := s.CreateToken(t.Context(), account.Token{User: u.ID, Scopes: account.FullScopes()}, hashOf("x")); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteUser(t.Context(), u.Account, u.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Principal(t.Context(), hashOf("x")); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a deleted user's token: %v", err)
	}
}
