package host

import (
	"cmp"
	"slices"
)

// plight is all that counts when a primary is gone: its server has ended or
// was killed, and nothing receives from it any more.
type plight struct {
	// Files tells that the dead primary's data is at hand.
	Files bool
	// CanDrain tells that what it wrote last can be read from there without
	// starting it.
	CanDrain bool
	// Synchronous tells that what was acknowledged is on one replica at least.
	Synchronous bool
	// Tried tells that the dead primary was started again, in vain.
	Tried bool
	// Waited tells that replicas that don't answer were waited for long enough.
	Waited   bool
	Replicas []candidate
}

// candidate is a replica as it stands.
type candidate struct {
	Ordinal int
	// Whole tells that it has a copy of the cluster's data.
	Whole   bool
	Answers bool
	// Received is engine.ReplicationStatus's.
	Received uint64
}

// remedy is what is done about a plight.
type remedy string

const (
	remedyRestart remedy = "restart" // start the old primary where it is
	remedyPromote remedy = "promote" // make a replica the primary
	remedyAwait   remedy = "await"   // look again when a replica may have come back
	remedyNone    remedy = "none"    // nothing can serve
)

// verdict is a remedy with its details.
type verdict struct {
	Remedy remedy
	// Heir is the ordinal to promote.
	Heir int
	// MayLose tells that acknowledged writes may be missing on the heir.
	MayLose bool
}

// elect decides what becomes of a cluster without a primary. It is pure. What
// was acknowledged must be there afterwards wherever that can be had:
//
//   - a dead primary's files hold everything, so they are drained to the heir, or
//     served from again where the engine can't be drained;
//   - without them, a replica of a synchronous cluster has everything, but only
//     all that have data know which;
//   - else the furthest replica takes over, and people are told.
func elect(p plight) verdict {
	var able []candidate
	missing := false
	for _, c := range p.Replicas {
		if c.Whole && c.Answers {
			able = append(able, c)
		} else if c.Whole {
			missing = true
		}
	}
	restartable := p.Files && !p.Tried
	if len(able) == 0 {
		switch {
		case restartable:
			return verdict{Remedy: remedyRestart}
		case missing:
			return verdict{Remedy: remedyAwait}
		case p.Files: // nobody else is left: go on trying
			return verdict{Remedy: remedyRestart}
		}
		return verdict{Remedy: remedyNone}
	}
	heir := slices.MaxFunc(able, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.Received, b.Received), b.Ordinal-a.Ordinal) // the lower of equals
	}).Ordinal
	proven := p.Synchronous && !missing
	switch {
	case p.Files && p.CanDrain, proven:
		return verdict{Remedy: remedyPromote, Heir: heir}
	case restartable:
		return verdict{Remedy: remedyRestart}
	case missing && !p.Waited:
		return verdict{Remedy: remedyAwait}
	}
	return verdict{Remedy: remedyPromote, Heir: heir, MayLose: true}
}
