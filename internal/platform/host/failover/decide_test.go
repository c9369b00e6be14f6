package failover

import "testing"

func TestDecide(t *testing.T) {
	replicas := func(c ...Replica) []Replica { return c }
	one := Replica{Ordinal: 1, HasData: true, Answers: true, Complete: true, Received: 100}
	two := Replica{Ordinal: 2, HasData: true, Answers: true, Complete: true, Received: 101}
	anew := Replica{Ordinal: 2, HasData: true, Answers: true, Received: 101}
	silent := Replica{Ordinal: 2, HasData: true}
	empty := Replica{Ordinal: 2}
	for _, c := range []struct {
		name string
		in   State
		want Decision
	}{
		{"drained to the furthest", State{HasData: true, CanDrain: true, Replicas: replicas(one, two)}, Decision{Promote, 2, false}},
		{"the lower of equals", State{HasData: true, CanDrain: true, Replicas: replicas(one, Replica{2, true, true, true, 100})}, Decision{Promote, 1, false}},
		{"drained though a replica is silent", State{HasData: true, CanDrain: true, Replicas: replicas(one, silent)}, Decision{Promote, 1, false}},
		{"synchronous: the furthest has it all", State{HasData: true, Synchronous: true, Replicas: replicas(one, two)}, Decision{Promote, 2, false}},
		{"synchronous without files", State{Synchronous: true, Replicas: replicas(one, two)}, Decision{Promote, 2, false}},
		{"synchronous, the other has no data", State{Synchronous: true, Replicas: replicas(one, empty)}, Decision{Promote, 1, false}},
		{"synchronous, one was started again: the files have it", State{HasData: true, Synchronous: true, Replicas: replicas(one, anew)}, Decision{Action: Restart}},
		{"synchronous, one was started again, no files: it may have known more", State{Synchronous: true, Replicas: replicas(one, anew)}, Decision{Promote, 2, true}},
		{"drained to one that was started again", State{HasData: true, CanDrain: true, Replicas: replicas(one, anew)}, Decision{Promote, 2, false}},
		{"synchronous, one is silent: the files have it", State{HasData: true, Synchronous: true, Replicas: replicas(one, silent)}, Decision{Action: Restart}},
		{"synchronous, one is silent, no files: it may know more", State{Synchronous: true, Replicas: replicas(one, silent)}, Decision{Action: Wait}},
		{"… but not for ever", State{Synchronous: true, WaitExpired: true, Replicas: replicas(one, silent)}, Decision{Promote, 1, true}},
		{"asynchronous: the files have more than any replica", State{HasData: true, Replicas: replicas(one, two)}, Decision{Action: Restart}},
		{"… unless they can't be served", State{HasData: true, RestartFailed: true, Replicas: replicas(one, two)}, Decision{Promote, 2, true}},
		{"asynchronous without files", State{CanDrain: true, Replicas: replicas(one, two)}, Decision{Promote, 2, true}},
		{"asynchronous without files, one silent", State{Replicas: replicas(one, silent)}, Decision{Action: Wait}},
		{"no replica: restart", State{HasData: true, CanDrain: true, Replicas: replicas(silent, empty)}, Decision{Action: Restart}},
		{"no replica, the restart failed: one may come", State{HasData: true, RestartFailed: true, Replicas: replicas(silent)}, Decision{Action: Wait}},
		{"nobody else is left", State{HasData: true, RestartFailed: true, Replicas: replicas(empty)}, Decision{Action: Restart}},
		{"nothing is left", State{Replicas: replicas(empty)}, Decision{Action: GiveUp}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Decide(c.in); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// In every possible state: what was acknowledged isn't risked where it can be
// had, and nobody without the cluster's data is ever promoted.
func TestDecideRisksNothing(t *testing.T) {
	const flags = 11
	for bits := range 1 << flags {
		bit := func(n int) bool { return bits&(1<<n) != 0 }
		situation := State{
			HasData: bit(0), CanDrain: bit(1), Synchronous: bit(2), RestartFailed: bit(3), WaitExpired: bit(4),
			Replicas: []Replica{
				{Ordinal: 1, HasData: bit(5), Answers: bit(6), Complete: bit(9), Received: 7},
				{Ordinal: 2, HasData: bit(7), Answers: bit(8), Complete: bit(10), Received: 8},
			},
		}
		decision := Decide(situation)
		if decision.Action == Restart && !situation.HasData {
			t.Fatalf("%+v: a server without data is started", situation)
		}
		if decision.Action != Promote {
			continue
		}
		candidate := situation.Replicas[decision.Candidate-1]
		if !candidate.HasData || !candidate.Answers {
			t.Fatalf("%+v: node %d is promoted", situation, decision.Candidate)
		}
		other := situation.Replicas[2-decision.Candidate]
		if other.HasData && other.Answers && other.Received > candidate.Received {
			t.Fatalf("%+v: node %d is further", situation, other.Ordinal)
		}
		known := situation.Synchronous && candidate.Complete && (!other.HasData || other.Answers && other.Complete)
		safe := situation.HasData && situation.CanDrain || known
		if !safe && !decision.MayLose {
			t.Fatalf("%+v: nobody is told of what may be lost", situation)
		}
		if decision.MayLose && (safe || situation.HasData && !situation.RestartFailed) {
			t.Fatalf("%+v: writes are risked without need", situation)
		}
	}
}
