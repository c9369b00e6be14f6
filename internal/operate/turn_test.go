package operate

import (
	"testing"

	"steward/internal/account"
)

// TestNoAccountHoldsAllTurns: the last is kept for whoever has none, and a single
// one is anybody's.
func TestNoAccountHoldsAllTurns(t *testing.T) {
	t.Parallel()
	const greedy, modest = account.ID(1), account.ID(2)
	turns := newTurns(4)
	for range 3 {
		if !turns.take(greedy) {
			t.Fatal("a free turn can't be had")
		}
	}
	if turns.take(greedy) {
		t.Error("one account holds all turns")
	}
	if !turns.take(modest) {
		t.Error("another account waits")
	}
	turns.done(greedy)
	if turns.take(greedy) || turns.take(modest) {
		t.Error("who has one took the last turn")
	}
	turns.done(modest)
	if !turns.take(greedy) || !turns.take(modest) {
		t.Error("a turn that was given back can't be had")
	}
	if one := newTurns(1); !one.take(greedy) || one.take(modest) {
		t.Error("of one turn there isn't just one")
	}
}
