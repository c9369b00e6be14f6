package host

import "testing"

func TestDecide(t *testing.T) {
	replicas := func(c ...replicaState) []replicaState { return c }
	one := replicaState{Ordinal: 1, HasData: true, Answers: true, Received: 100}
	two := replicaState{Ordinal: 2, HasData: true, Answers: true, Received: 101}
	silent := replicaState{Ordinal: 2, HasData: true}
	empty := replicaState{Ordinal: 2}
	for _, c := range []struct {
		name string
		in   failoverState
		want decision
	}{
		{"drained to the furthest", failoverState{HasData: true, CanDrain: true, Replicas: replicas(one, two)}, decision{actionPromote, 2, false}},
		{"the lower of equals", failoverState{HasData: true, CanDrain: true, Replicas: replicas(one, replicaState{2, true, true, 100})}, decision{actionPromote, 1, false}},
		{"drained though a replica is silent", failoverState{HasData: true, CanDrain: true, Replicas: replicas(one, silent)}, decision{actionPromote, 1, false}},
		{"synchronous: the furthest has it all", failoverState{HasData: true, Synchronous: true, Replicas: replicas(one, two)}, decision{actionPromote, 2, false}},
		{"synchronous without files", failoverState{Synchronous: true, Replicas: replicas(one, two)}, decision{actionPromote, 2, false}},
		{"synchronous, the other has no data", failoverState{Synchronous: true, Replicas: replicas(one, empty)}, decision{actionPromote, 1, false}},
		{"synchronous, one is silent: the files have it", failoverState{HasData: true, Synchronous: true, Replicas: replicas(one, silent)}, decision{Action: actionRestart}},
		{"synchronous, one is silent, no files: it may know more", failoverState{Synchronous: true, Replicas: replicas(one, silent)}, decision{Action: actionWait}},
		{"… but not for ever", failoverState{Synchronous: true, WaitExpired: true, Replicas: replicas(one, silent)}, decision{actionPromote, 1, true}},
		{"asynchronous: the files have more than any replica", failoverState{HasData: true, Replicas: replicas(one, two)}, decision{Action: actionRestart}},
		{"… unless they can't be served", failoverState{HasData: true, RestartFailed: true, Replicas: replicas(one, two)}, decision{actionPromote, 2, true}},
		{"asynchronous without files", failoverState{CanDrain: true, Replicas: replicas(one, two)}, decision{actionPromote, 2, true}},
		{"asynchronous without files, one silent", failoverState{Replicas: replicas(one, silent)}, decision{Action: actionWait}},
		{"no replica: restart", failoverState{HasData: true, CanDrain: true, Replicas: replicas(silent, empty)}, decision{Action: actionRestart}},
		{"no replica, the restart failed: one may come", failoverState{HasData: true, RestartFailed: true, Replicas: replicas(silent)}, decision{Action: actionWait}},
		{"nobody else is left", failoverState{HasData: true, RestartFailed: true, Replicas: replicas(empty)}, decision{Action: actionRestart}},
		{"nothing is left", failoverState{Replicas: replicas(empty)}, decision{Action: actionNone}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := decide(c.in); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// In every possible state: what was acknowledged isn't risked where it can be
// had, and nobody without the cluster's data is ever promoted.
func TestDecideRisksNothing(t *testing.T) {
	const flags = 9
	for bits := range 1 << flags {
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		state := failoverState{
			HasData: bit(0), CanDrain: bit(1), Synchronous: bit(2), RestartFailed: bit(3), WaitExpired: bit(4),
			Replicas: []replicaState{
				{Ordinal: 1, HasData: bit(5), Answers: bit(6), Received: 7},
				{Ordinal: 2, HasData: bit(7), Answers: bit(8), Received: 8},
			},
		}
		decision := decide(state)
		if decision.Action == actionRestart && !state.HasData {
			t.Fatalf("%+v: a server without data is started", state)
		}
		if decision.Action != actionPromote {
			continue
		}
		candidate := state.Replicas[decision.Candidate-1]
		if !candidate.HasData || !candidate.Answers {
			t.Fatalf("%+v: node %d is promoted", state, decision.Candidate)
		}
		other := state.Replicas[2-decision.Candidate]
		if other.HasData && other.Answers && other.Received > candidate.Received {
			t.Fatalf("%+v: node %d is further", state, other.Ordinal)
		}
		known := state.Synchronous && (!other.HasData || other.Answers)
		safe := state.HasData && state.CanDrain || known
		if !safe && !decision.MayLose {
			t.Fatalf("%+v: nobody is told of what may be lost", state)
		}
		if decision.MayLose && (safe || state.HasData && !state.RestartFailed) {
			t.Fatalf("%+v: writes are risked without need", state)
		}
	}
}
