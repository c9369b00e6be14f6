package operate

import (
	"testing"

	"steward/internal/account"
)

// TestNoAccountHoldsAllSlots: the last is kept for whoever has none, and a single
// one is anybody's.
func TestNoAccountHoldsAllSlots(t *testing.T) {
	t.Parallel()
	const greedy, modest = account.ID(1), account.ID(2)
	slots := newSlots(4)
	for range 3 {
		if !slots.take(greedy) {
			t.Fatal("a free slot can't be had")
		}
	}
	if slots.take(greedy) {
		t.Error("one account holds all slots")
	}
	if !slots.take(modest) {
		t.Error("another account waits")
	}
	slots.done(greedy)
	if slots.take(greedy) || slots.take(modest) {
		t.Error("who has one took the last slot")
	}
	slots.done(modest)
	if !slots.take(greedy) || !slots.take(modest) {
		t.Error("a slot that was given back can't be had")
	}
	if one := newSlots(1); !one.take(greedy) || one.take(modest) {
		t.Error("of one slot there isn't just one")
	}
}
