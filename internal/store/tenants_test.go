package store_test

import (
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/monitor"
	"steward/internal/pgtest"
	"steward/internal/store"
)

// TestServicesOfSuspendedAccounts: they aren't checked, and those who check learn of it
// from the shard, as of any change.
func TestServicesOfSuspendedAccounts(t *testing.T) {
	t.Parallel()
	s := pgtest.Store(t)
	ctx := t.Context()
	var a account.Account
	var shard int
	err := s.InTx(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.CreateAccount(ctx, account.Account{Name: "acme"}); err != nil {
			return err
		}
		made, err := tx.CreateService(ctx, monitor.Service{Account: a.ID, Label: "web", Type: monitor.URL, Address: "http://192.0.2.1/", Timeout: 5, Status: monitor.Pending, Since: time.Now()})
		shard = made.ID.Shard()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func() (checked int, changed int64) {
		watched, err := s.WatchedOf(ctx, []int{shard}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Pool().QueryRow(ctx, "SELECT changed FROM shards WHERE id = $1", shard).Scan(&changed); err != nil {
			t.Fatal(err)
		}
		return len(watched), changed
	}
	_, before := look()
	for _, step := range []struct {
		status account.Status
		want   int
	}{{account.Suspended, 0}, {account.Active, 1}, {account.Deleting, 0}} {
		err := s.InTx(ctx, func(tx *store.Tx) error {
			now, err := tx.HoldAccount(ctx, a.ID)
			now.Status = step.status
			if err != nil {
				return err
			}
			return tx.UpdateAccount(ctx, now)
		})
		if err != nil {
			t.Fatal(err)
		}
		checked, changed := look()
		if checked != step.want || changed == before {
			t.Errorf("%s: %d services are checked; the shard was %d and is %d", step.status, checked, before, changed)
		}
		before = changed
	}
}
