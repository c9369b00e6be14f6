package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// TestTableIsSpelledOutTwice spells the table of status changes out once more, so
// that a change of one is a change of both.
func TestTableIsSpelledOutTwice(t *testing.T) {
	t.Parallel()
	want := map[cluster.Status]string{
		cluster.Provisioning: "ready→active give_up→failed",
		cluster.Active:       "backup→backing_up change→updating down→failed node_lost→degraded restore→restoring suspend→suspending",
		cluster.Updating:     "give_up_serve→degraded give_up→failed ready→active",
		cluster.BackingUp:    "ready→active",
		cluster.Restoring:    "give_up→failed ready→active",
		cluster.Suspending:   "ready→suspended",
		cluster.Suspended:    "resume→resuming",
		cluster.Resuming:     "give_up→failed ready→active",
		cluster.Degraded:     "down→failed healed→active restore→restoring suspend→suspending",
		cluster.Failed:       "healed→active node_lost→degraded restore→restoring",
	}
	for _, from := range cluster.Statuses {
		var moves []string
		for _, move := range cluster.Table {
			if move.From == from {
				moves = append(moves, string(move.On)+"→"+string(move.To))
			}
		}
		expected := strings.Fields(want[from])
		slices.Sort(moves)
		slices.Sort(expected)
		if !slices.Equal(moves, expected) {
			t.Errorf("%s: %v, want %v", from, moves, expected)
		}
	}
	if len(want) != len(cluster.Statuses) || len(cluster.Statuses) != 10 {
		t.Errorf("%d statuses", len(cluster.Statuses))
	}
}

// TestTableHasNoDeadEnds: one answer per status and trigger, nothing unreachable,
// and from everywhere a way back to active.
func TestTableHasNoDeadEnds(t *testing.T) {
	t.Parallel()
	seen := map[[2]string]bool{}
	leads := map[cluster.Status][]cluster.Status{}
	for _, move := range cluster.Table {
		key := [2]string{string(move.From), string(move.On)}
		if seen[key] {
			t.Errorf("two answers to %v", key)
		}
		seen[key] = true
		if move.From == move.To {
			t.Errorf("%s leads nowhere on %s", move.From, move.On)
		}
		if to, ok := cluster.Next(move.From, move.On); !ok || to != move.To {
			t.Errorf("Next(%s, %s) = %s, %v", move.From, move.On, to, ok)
		}
		leads[move.From] = append(leads[move.From], move.To)
	}
	reach := func(from cluster.Status) []cluster.Status {
		found := []cluster.Status{from}
		for i := 0; i < len(found); i++ {
			for _, to := range leads[found[i]] {
				if !slices.Contains(found, to) {
					found = append(found, to)
				}
			}
		}
		return found
	}
	if got := reach(cluster.Provisioning); len(got) != len(cluster.Statuses) {
		t.Errorf("from provisioning only %v are reached", got)
	}
	for _, from := range cluster.Statuses {
		if !slices.Contains(reach(from), cluster.Active) {
			t.Errorf("no way from %s to active", from)
		}
	}
}

func TestResting(t *testing.T) {
	t.Parallel()
	for _, status := range cluster.Statuses {
		want := status == cluster.Suspending || status == cluster.Suspended
		if status.Resting() != want {
			t.Errorf("%s: %v", status, !want)
		}
	}
}

func TestNextRefusesWhatTheTableLacks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.SampledFrom(append([]cluster.Status{"", "unheard-of"}, cluster.Statuses...)).Draw(t, "from")
		on := rapid.SampledFrom([]cluster.Trigger{"", "nonsense", cluster.Ready, cluster.Change, cluster.Healed, cluster.Down, cluster.Suspend}).Draw(t, "on")
		listed := slices.ContainsFunc(cluster.Table, func(m cluster.Transition) bool { return m.From == from && m.On == on })
		to, ok := cluster.Next(from, on)
		if ok != listed || ok == (to == "") {
			t.Fatalf("Next(%q, %q) = %q, %v", from, on, to, ok)
		}
	})
}

// TestRequire spells out which status lets which request through (docs/rules.md,
// Databases).
func TestRequire(t *testing.T) {
	t.Parallel()
	want := map[cluster.Request]string{
		cluster.RequestDelete:      "active failed degraded suspended",
		cluster.RequestUpdate:      "active",
		cluster.RequestPatch:       "active",
		cluster.RequestTrial:       "active backing_up degraded suspended",
		cluster.RequestRestart:     "active",
		cluster.RequestSwitchover:  "active",
		cluster.RequestReset:       "active",
		cluster.RequestSuspend:     "active",
		cluster.RequestResume:      "suspended",
		cluster.RequestCredentials: "active updating backing_up degraded",
		cluster.RequestSSL:         "active updating backing_up degraded",
		cluster.RequestBackups:     "active suspending suspended resuming restoring failed degraded updating backing_up",
		cluster.RequestSnapshot:    "active",
		cluster.RequestRestore:     "active degraded failed",
		cluster.RequestLook:        "active updating backing_up degraded",
		cluster.RequestShape:       "active backing_up degraded",
	}
	for request, statuses := range want {
		for _, status := range cluster.Statuses {
			err := cluster.Require(status, request)
			if allowed := slices.Contains(strings.Fields(statuses), string(status)); (err == nil) != allowed {
				t.Errorf("%s while %s: %v", request, status, err)
			}
			if err == nil {
				continue
			}
			if !fault.IsKind(err, fault.Precondition) || !strings.Contains(err.Error(), string(status)) || !strings.Contains(err.Error(), strings.Fields(statuses)[0]) {
				t.Errorf("%s while %s: %v", request, status, err)
			}
		}
	}
	if got := cluster.RequestsAllowed(); len(got) != len(want) {
		t.Errorf("requests: %v", got)
	}
	const sentence = "The database is provisioning; it can be deleted when it is active, failed, degraded or suspended."
	if got := cluster.Require(cluster.Provisioning, cluster.RequestDelete).Error(); got != sentence {
		t.Errorf("%q", got)
	}
	if cluster.Require(cluster.Active, "painted") == nil {
		t.Error("an unheard-of request is let through")
	}
}
