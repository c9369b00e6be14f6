package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/await"
	"steward/internal/fault"
	"steward/internal/pgtest"
	"steward/internal/store"
)

func TestEnsureAdmin(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ids := make([]account.UserID, 6)
	var starts sync.WaitGroup
	for i := range ids {
		starts.Go(func() { // several servers may start on an empty store
			err := s.InTx(context.Background(), func(tx *store.Tx) error {
				u, err := tx.EnsureAdmin(context.Background())
				if err == nil && (u.Username != "admin" || u.Restricted) {
					t.Errorf("%+v", u)
				}
				ids[i] = u.ID
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
	for _, id := range ids {
		if id != ids[0] || id == 0 {
			t.Errorf("more than one admin: %v", ids)
		}
	}
}

func TestUsers(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	made, err := s.CreateUser(ctx, account.User{Account: a.Account, Username: "r", Email: "r@example.org", Restricted: true, AddDatabases: true})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.User(ctx, a.Account, "r")
	if diff := cmp.Diff(made, got); err != nil || diff != "" {
		t.Errorf("%v -made +read\n%s", err, diff)
	}
	taken := fault.NewInvalid("username", "Username taken")
	if _, err := s.CreateUser(ctx, account.User{Account: a.Account, Username: "r"}); !errors.Is(err, taken) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := s.UserAnywhere(ctx, "r"); err != nil {
		t.Error(err)
	}
	if _, err := s.CreateUser(ctx, account.User{Account: b.Account, Username: "r"}); err != nil {
		t.Errorf("another account's names can be felt: %v", err)
	}
	if _, err := s.UserAnywhere(ctx, "r"); !fault.IsKind(err, fault.Precondition) {
		t.Errorf("a name of two accounts: %v", err)
	}
	if _, err := s.UserAnywhere(ctx, "nobody"); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a name of none: %v", err)
	}
	made.Username, made.Email, made.Restricted, made.AddDatabases = "renamed", "new@example.org", false, false
	if err := s.UpdateUser(ctx, made); err != nil {
		t.Fatal(err)
	}
	got, err = s.User(ctx, a.Account, "renamed")
	if diff := cmp.Diff(made, got); err != nil || diff != "" {
		t.Errorf("%v -written +read\n%s", err, diff)
	}
	made.Username = "a"
	if err := s.UpdateUser(ctx, made); !errors.Is(err, taken) {
		t.Errorf("renamed to a name that is taken: %v", err)
	}
	for _, id := range []account.UserID{b.ID, 999} {
		if err := s.DeleteUser(ctx, a.Account, id); !fault.IsKind(err, fault.NotFound) {
			t.Errorf("delete of a user that isn't the account's: %v", err)
		}
	}
	if err := s.DeleteUser(ctx, a.Account, made.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.User(ctx, a.Account, "renamed"); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("after the delete: %v", err)
	}
}

func TestUserPages(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "u0")
	newAccount(t, s, "other")
	for i := range 4 {
		if _, err := s.CreateUser(t.Context(), account.User{Account: u.Account, Username: fmt.Sprintf("u%d", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	for page, want := range map[store.Page][]string{
		{}:                    {"u0", "u1", "u2", "u3", "u4"},
		{Number: 1, Size: 2}:  {"u0", "u1"},
		{Number: 3, Size: 2}:  {"u4"},
		{Number: 9, Size: 2}:  nil,
		{Number: 1 << 62}:     nil,
		{Number: -1, Size: 1}: {"u0"},
	} {
		users, total, err := s.Users(t.Context(), u.Account, store.ListQuery{Page: page})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, user := range users {
			names = append(names, user.Username)
		}
		if diff := cmp.Diff(want, names); diff != "" || total != 5 {
			t.Errorf("page %+v: total %d, -want +got\n%s", page, total, diff)
		}
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	a, b := newAccount(t, s, "a"), newAccount(t, s, "b")
	one, two, theirs := newCluster(t, s, a.Account, "one"), newCluster(t, s, a.Account, "two"), newCluster(t, s, b.Account, "theirs")
	r, err := s.CreateUser(ctx, account.User{Account: a.Account, Username: "r", Restricted: true})
	if err != nil {
		t.Fatal(err)
	}
	check := func(wantOne, wantTwo account.Permission) {
		t.Helper()
		grants, err := s.Grants(ctx, r)
		want := []account.Grant{{Cluster: int64(one.ID), Label: "one", Permission: wantOne}, {Cluster: int64(two.ID), Label: "two", Permission: wantTwo}}
		if diff := cmp.Diff(want, grants); err != nil || diff != "" {
			t.Errorf("%v -want +got\n%s", err, diff)
		}
		if p, err := s.Grant(ctx, r.ID, one.ID); err != nil || p != wantOne {
			t.Errorf("%q, %v", p, err)
		}
	}
	check("", "")
	for _, p := range []account.Permission{account.ReadOnly, account.ReadWrite, account.ReadWrite} {
		if err := s.SetGrant(ctx, r, one.ID, p); err != nil {
			t.Fatal(err)
		}
		check(p, "")
	}
	if err := s.SetGrant(ctx, r, theirs.ID, account.ReadOnly); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a grant on another account's database: %v", err)
	}
	if err := s.SetGrant(ctx, r, one.ID, account.NoPermission); err != nil {
		t.Fatal(err)
	}
	check("", "")
	if err := s.SetGrant(ctx, r, two.ID, account.ReadOnly); err != nil {
		t.Fatal(err)
	}
	inTx(t, s, func(tx *store.Tx) error { return tx.MarkDeleted(ctx, two) })
	if grants, err := s.Grants(ctx, r); err != nil || len(grants) != 1 {
		t.Errorf("a deleted database is among the grants: %v, %v", grants, err)
	}
	if err := s.SetGrant(ctx, r, two.ID, account.ReadOnly); !fault.IsKind(err, fault.NotFound) {
		t.Errorf("a grant on a deleted database: %v", err)
	}
	if err := s.DeleteUser(ctx, a.Account, r.ID); err != nil {
		t.Errorf("a user with grants can't be deleted: %v", err)
	}
}

// TestLockUsers: two who would each take the other's rights come one after the other.
func TestLockUsers(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	u := newAccount(t, s, "a")
	locked, proceed := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		err := s.InTx(context.Background(), func(tx *store.Tx) error {
			users, err := tx.LockUsers(context.Background(), u.Account)
			if err != nil || len(users) != 1 {
				t.Errorf("%v, %v", users, err)
			}
			close(locked)
			<-proceed
			u.Restricted = true
			return tx.UpdateUser(context.Background(), u)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-locked
	var seen []account.User
	var second sync.WaitGroup
	second.Go(func() {
		_ = s.InTx(context.Background(), func(tx *store.Tx) (err error) {
			seen, err = tx.LockUsers(context.Background(), u.Account)
			return err
		})
	})
	await.True(t, "the second waits", func() bool {
		var waiting int
		err := s.Pool().QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE NOT granted").Scan(&waiting)
		return err == nil && waiting > 0
	})
	close(proceed)
	first.Wait()
	second.Wait()
	if len(seen) != 1 || !seen[0].Restricted {
		t.Errorf("the second saw what was before the first: %+v", seen)
	}
}
