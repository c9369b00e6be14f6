package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"steward/internal/cluster"
)

// topology says which node of a cluster is the primary. It is what decides: it
// is on the disk before a replica is promoted, and whoever comes afterwards, a
// new steward or the old primary's server, goes by it. Clusters of one node
// have none until they are suspended.
type topology struct {
	// Members is how many nodes the cluster has.
	Members     int                 `json:"members"`
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
	// Restoring reports whether a backup is being put in the place of the data: what
	// lies there may be neither.
	Restoring bool `json:"restoring,omitempty"`
	// Suspended reports whether no server is to run.
	Suspended bool `json:"suspended,omitempty"`
}

func (l layout) topology(id cluster.ID) string { return filepath.Join(l.cluster(id), "cluster.json") }

// topology of a cluster; of one that has none, that of a single node.
func (d *Driver) topology(id cluster.ID) (topology, error) {
	t := topology{Members: 1}
	content, err := os.ReadFile(d.layout.topology(id))
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return t, fmt.Errorf("read topology: %w", err)
	}
	if err := json.Unmarshal(content, &t); err != nil {
		return t, fmt.Errorf("read topology %s: %w", d.layout.topology(id), err)
	}
	if t.Members < 1 || t.Members > maxNodes || t.Primary < 0 || t.Primary >= t.Members {
		return t, fmt.Errorf("topology %s: node %d of %d can't be the primary", d.layout.topology(id), t.Primary, t.Members)
	}
	return t, nil
}

// saveTopology returns when it is on the disk.
func (d *Driver) saveTopology(id cluster.ID, t topology) error {
	content, err := json.MarshalIndent(t, "", "  ")
	if err == nil {
		err = makeFolder(d.layout.cluster(id), 0o711, 0, 0)
	}
	if err == nil {
		err = writeDurably(d.layout.topology(id), append(content, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write topology: %w", err)
	}
	return nil
}

// role of a node.
func (t topology) role(ordinal int) cluster.Role {
	if ordinal == t.Primary {
		return cluster.Primary
	}
	return cluster.Replica
}

// replicas are the ordinals of all nodes but the primary.
func (t topology) replicas() []int {
	var list []int
	for o := range t.Members {
		if o != t.Primary {
			list = append(list, o)
		}
	}
	return list
}
