// Package failover decides what to do about a dead primary. It is pure.
package failover

import (
	"cmp"
	"slices"
)

// State is all that matters for a failover: the primary has ended or was
// killed, and no replica receives from it any more.
type State struct {
	// HasData reports whether the dead primary's data is still there.
	HasData bool
	// CanDrain reports whether its last writes can be read from that data without
	// starting the server.
	CanDrain bool
	// Synchronous reports whether every acknowledged write is on at least one replica.
	Synchronous bool
	// RestartFailed reports whether restarting the dead primary was tried and failed.
	RestartFailed bool
	// WaitExpired reports whether replicas that don't answer were waited for long enough.
	WaitExpired bool
	Replicas    []Replica
}

// Replica is what is known of a replica.
type Replica struct {
	Ordinal int
	// HasData reports whether it has a copy of the cluster's data.
	HasData bool
	Answers bool
	// Complete reports whether it still has everything that it ever acknowledged: one
	// whose server was started again may have lost what it had not applied.
	Complete bool
	// Received is engine.ReplicationStatus's.
	Received uint64
}

// Action is what to do about a dead primary.
type Action string

// The actions.
const (
	Restart Action = "restart" // start the old primary where it is
	Promote Action = "promote" // make a replica the primary
	Wait    Action = "wait"    // look again when a replica may have come back
	GiveUp  Action = "none"    // nothing can serve
)

// Decision is an action with its details.
type Decision struct {
	Action Action
	// Candidate is the ordinal to promote.
	Candidate int
	// MayLose reports whether acknowledged writes may be missing on the candidate.
	MayLose bool
}

// Decide chooses what to do about a dead primary. Acknowledged writes
// must survive wherever that is possible:
//
//   - a dead primary's files hold everything, so they are drained to the candidate, or
//     served from again where the engine can't be drained;
//   - without them, a replica of a synchronous cluster has everything, but only
//     all that have data know which, and only while none was started again and hasn't
//     caught up since;
//   - else the furthest replica takes over, and the decision says that writes may be lost.
func Decide(situation State) Decision {
	able, missing := ableReplicas(situation.Replicas)
	restartable := situation.HasData && !situation.RestartFailed
	if len(able) == 0 {
		switch {
		case restartable:
			return Decision{Action: Restart}
		case missing:
			return Decision{Action: Wait}
		case situation.HasData: // nobody else is left: go on trying
			return Decision{Action: Restart}
		}
		return Decision{Action: GiveUp}
	}
	candidate := slices.MaxFunc(able, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.Received, b.Received), b.Ordinal-a.Ordinal) // the lower of equals
	}).Ordinal
	forgot := slices.ContainsFunc(able, func(r Replica) bool { return !r.Complete })
	proven := situation.Synchronous && !missing && !forgot
	switch {
	case situation.HasData && situation.CanDrain, proven:
		return Decision{Action: Promote, Candidate: candidate}
	case restartable:
		return Decision{Action: Restart}
	case missing && !situation.WaitExpired:
		return Decision{Action: Wait}
	}
	return Decision{Action: Promote, Candidate: candidate, MayLose: true}
}

// ableReplicas are those that could take over; missing reports whether others that have
// data can't be asked.
func ableReplicas(all []Replica) (able []Replica, missing bool) {
	for _, r := range all {
		if r.HasData && r.Answers {
			able = append(able, r)
		} else if r.HasData {
			missing = true
		}
	}
	return able, missing
}
