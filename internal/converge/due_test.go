package converge

import (
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/store"
)

// TestDue is the whole table: what an account's status asks of a database in each status,
// of one that rests with its account and of one that doesn't.
func TestDue(t *testing.T) {
	t.Parallel()
	steps := map[step]string{remove: "remove", rest: "rest", wake: "wake", release: "release"}
	want := map[account.Status]map[bool]string{
		account.Active: {true: "provisioning:release active:release suspended:wake resuming:release restoring:release failed:release " +
			"degraded:release updating:release backing_up:release"},
		account.Suspended: {false: "active:rest degraded:rest", true: "active:rest degraded:rest"},
		account.Deleting: {
			false: "active:remove suspended:remove failed:remove degraded:remove",
			true:  "active:remove suspended:remove failed:remove degraded:remove",
		},
	}
	for _, of := range []account.Status{account.Active, account.Suspended, account.Deleting} {
		for _, rests := range []bool{false, true} {
			var got []string
			for _, status := range cluster.Statuses {
				if s := due(of, store.AccountCluster{Status: status, RestsWithAccount: rests}); s != stay {
					got = append(got, string(status)+":"+steps[s])
				}
				if s := due(of, store.AccountCluster{Status: status, RestsWithAccount: rests, Deleted: true}); s != stay {
					t.Errorf("of a deleted one that is %s, in a %s account: %s", status, of, steps[s])
				}
			}
			if text := strings.Join(got, " "); text != want[of][rests] {
				t.Errorf("%s, rests with the account %v: %s", of, rests, text)
			}
		}
	}
}
