package control

import (
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/store"
)

func TestPrincipals(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	hash := store.TokenHash{1}
	end := now.Add(time.Hour)
	p := account.Principal{Token: 7, TokenExpiry: &end}

	c := newPrincipals()
	_, before, ok := c.find(hash, now)
	if ok {
		t.Fatal("something is known from nothing")
	}
	c.remember(hash, p, before, now)
	if got, _, ok := c.find(hash, now); !ok || got.Token != 7 {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, _, ok := c.find(hash, now.Add(rememberFor)); ok {
		t.Error("an operator who takes something away waits for ever")
	}
	soon := now.Add(rememberFor / 2)
	p.TokenExpiry = &soon
	c.remember(hash, p, before, now)
	if _, _, ok := c.find(hash, soon); ok {
		t.Error("an expired token is known")
	}
	c.forget()
	if _, _, ok := c.find(hash, now); ok {
		t.Error("known after forget")
	}
	c.remember(hash, p, before, now) // read before the revocation, remembered after it
	if _, _, ok := c.find(hash, now); ok {
		t.Error("what was read before something was taken away is remembered after it")
	}

	var none *principals
	none.remember(hash, p, 0, now)
	none.forget()
	if _, _, ok := none.find(hash, now); ok {
		t.Error("with several servers nothing may be remembered")
	}
}
