package host

import (
	"cmp"
	"slices"
)

// failoverState is all that matters for a failover: the primary has ended or was
// killed, and no replica receives from it any more.
type failoverState struct {
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
	Replicas    []replicaState
}

// replicaState is what is known of a replica.
type replicaState struct {
	Ordinal int
	// HasData reports whether it has a copy of the cluster's data.
	HasData bool
	Answers bool
	// Received is engine.ReplicationStatus's.
	Received uint64
}

// action is what to do about a dead primary.
type action string

const (
	actionRestart action = "restart" // start the old primary where it is
	actionPromote action = "promote" // make a replica the primary
	actionWait    action = "wait"    // look again when a replica may have come back
	actionNone    action = "none"    // nothing can serve
)

// decision is an action with its details.
type decision struct {
	Action action
	// Candidate is the ordinal to promote.
	Candidate int
	// MayLose reports whether acknowledged writes may be missing on the candidate.
	MayLose bool
}

// decide chooses what to do about a dead primary. It is pure. Acknowledged writes
// must survive wherever that is possible:
//
//   - a dead primary's files hold everything, so they are drained to the candidate, or
//     served from again where the engine can't be drained;
//   - without them, a replica of a synchronous cluster has everything, but only
//     all that have data know which;
//   - else the furthest replica takes over, and the decision says that writes may be lost.
func decide(state failoverState) decision {
	var able []replicaState
	missing := false
	for _, c := range state.Replicas {
		if c.HasData && c.Answers {
			able = append(able, c)
		} else if c.HasData {
			missing = true
		}
	}
	restartable := state.HasData && !state.RestartFailed
	if len(able) == 0 {
		switch {
		case restartable:
			return decision{Action: actionRestart}
		case missing:
			return decision{Action: actionWait}
		case state.HasData: // nobody else is left: go on trying
			return decision{Action: actionRestart}
		}
		return decision{Action: actionNone}
	}
	candidate := slices.MaxFunc(able, func(a, b replicaState) int {
		return cmp.Or(cmp.Compare(a.Received, b.Received), b.Ordinal-a.Ordinal) // the lower of equals
	}).Ordinal
	proven := state.Synchronous && !missing
	switch {
	case state.HasData && state.CanDrain, proven:
		return decision{Action: actionPromote, Candidate: candidate}
	case restartable:
		return decision{Action: actionRestart}
	case missing && !state.WaitExpired:
		return decision{Action: actionWait}
	}
	return decision{Action: actionPromote, Candidate: candidate, MayLose: true}
}
