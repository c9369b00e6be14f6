package store_test

import (
	"testing"

	"steward/internal/store"
)

// TestWhoIsHinted: of a list that has changed those are told who may read it.
func TestWhoIsHinted(t *testing.T) {
	t.Parallel()
	const audit, logins, apps, accounts = store.AuditTrail, store.LoginList, store.AppList, store.AccountList
	free, bound := store.Following{User: 1, Account: 1}, store.Following{User: 2, Account: 1, Restricted: true}
	operator, elsewhere := store.Following{User: 3, Account: 1, Operator: true}, store.Following{User: 4, Account: 2}
	for _, c := range []struct {
		hint                             store.Hint
		free, bound, operator, elsewhere bool
	}{
		{store.Hint{List: audit, Account: 1}, true, false, true, false},
		{store.Hint{List: audit, Account: 2}, false, false, false, true},
		{store.Hint{List: audit}, true, false, true, true},
		{store.Hint{List: logins, Account: 1, User: 1}, true, false, true, false},
		{store.Hint{List: logins, Account: 1, User: 2}, true, true, true, false},
		{store.Hint{List: logins}, true, true, true, true},
		{store.Hint{List: apps, User: 1}, true, false, false, false},
		{store.Hint{List: apps, User: 2}, false, true, false, false},
		{store.Hint{List: apps}, true, true, true, true},
		{store.Hint{List: accounts}, false, false, true, false},
		{store.Hint{List: "another"}, false, false, false, false},
	} {
		got := [4]bool{free.Sees(c.hint), bound.Sees(c.hint), operator.Sees(c.hint), elsewhere.Sees(c.hint)}
		if want := [4]bool{c.free, c.bound, c.operator, c.elsewhere}; got != want {
			t.Errorf("%+v: %v, want %v", c.hint, got, want)
		}
	}
}
