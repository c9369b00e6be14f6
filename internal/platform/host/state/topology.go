package state

import (
	"fmt"
	"time"

	"steward/internal/cluster"
)

// Topology says which node of a cluster is the primary. It is what decides: it
// is on the disk before a replica is promoted, and whoever comes afterwards, a
// new steward or the old primary's server, goes by it. Clusters of one node
// have none until they are suspended, or to fall asleep.
type Topology struct {
	// Size is how many nodes the cluster has.
	Size        int                 `json:"members"`
	Replication cluster.Replication `json:"replication,omitempty"`
	// Growing reports whether the primary was alone and the others don't follow yet: it
	// waits for none of them.
	Growing bool `json:"growing,omitempty"`
	// Primary is the ordinal of the node that takes the writes.
	Primary int `json:"primary"`
	// Failovers counts the changes of the primary, planned ones included; the
	// rest tells of the last.
	Failovers int       `json:"failovers"`
	Last      time.Time `json:"last,omitzero"`
	Reason    string    `json:"reason,omitempty"`
	// Change says between which nodes it was; none in files of older stewards.
	Change cluster.PrimaryChange `json:"change,omitzero"`
	// Restoring reports whether a backup is being put in the place of the data: what
	// lies there may be neither.
	Restoring bool `json:"restoring,omitempty"`
	// Restored names the request for the restore that put the data in place, or is about to.
	Restored string `json:"restored,omitempty"`
	// Undone reports whether the last restore was undone. Who died before noting that asks for it again.
	Undone bool `json:"undone,omitempty"`
	// Suspended reports whether no server is to run.
	Suspended bool `json:"suspended,omitempty"`
	// AutoSuspend is after how many minutes without a session the cluster falls asleep; 0 for never.
	AutoSuspend int `json:"auto_suspend_minutes,omitempty"`
	// Asleep is since when no server runs because nobody needs one; zero while they do. It
	// is on the disk before the first is stopped, and until the primary answers again.
	Asleep time.Time `json:"asleep,omitzero"`
	// Woken is what the cluster was last woken for.
	Woken string `json:"woken,omitempty"`
}

// Sleeps reports whether no server runs until somebody needs one.
func (t Topology) Sleeps() bool { return !t.Asleep.IsZero() }

// Rests reports whether no server is to run now.
func (t Topology) Rests() bool { return t.Suspended || t.Sleeps() }

// MaxNodes is how many nodes the largest cluster has.
const MaxNodes = 3

// ReadTopology returns the topology in a file; that of a single node when there is none.
func ReadTopology(path string) (Topology, error) {
	t, found, err := Read[Topology](path)
	if err != nil || !found {
		return Topology{Size: 1}, err
	}
	if t.Size < 1 || t.Size > MaxNodes || t.Primary < 0 || t.Primary >= t.Size {
		return t, fmt.Errorf("topology %s: node %d of %d can't be the primary", path, t.Primary, t.Size)
	}
	return t, nil
}

// Role returns the role of a node.
func (t Topology) Role(ordinal int) cluster.Role {
	if ordinal == t.Primary {
		return cluster.Primary
	}
	return cluster.Replica
}

// Replicas are the ordinals of all nodes but the primary.
func (t Topology) Replicas() []int {
	var list []int
	for o := range t.Size {
		if o != t.Primary {
			list = append(list, o)
		}
	}
	return list
}
