package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"steward/internal/cluster"
	"steward/internal/process"
)

// savedReplication is a node's last replication status, for other processes to read.
type savedReplication struct {
	Streaming bool          `json:"streaming"`
	Lag       time.Duration `json:"lag_ns"`
	Position  string        `json:"position"`
	Problem   string        `json:"problem,omitempty"`
	At        time.Time     `json:"at"`
}

// replication is the file with the nodes' last replication status; a reboot removes it.
func (l layout) replication(id cluster.ID) string {
	return filepath.Join(l.run, fmt.Sprintf("%d.json", id))
}

// saveReplication saves the nodes' last replication status, when there are several.
func (d *Driver) saveReplication(cs *clusterState) {
	top, err := d.topology(cs.id)
	if err == nil && top.Members > 1 {
		err = d.writeReplication(cs, top)
	}
	if err != nil {
		d.log.Warn("save replication status", "cluster_id", cs.id, "error", err)
	}
}

func (d *Driver) writeReplication(cs *clusterState, top topology) error {
	all := map[int]savedReplication{}
	for ordinal := range top.Members {
		if s, at := cs.node(ordinal).replicationStatus(); !at.IsZero() {
			all[ordinal] = savedReplication{Streaming: s.Streaming, Lag: s.Lag, Position: s.Position, Problem: s.Problem, At: at}
		}
	}
	content, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("save replication status: %w", err)
	}
	return process.WriteFile(d.layout.replication(cs.id), content, 0o600)
}

// readReplication returns what was last saved; nil when there is none.
func (d *Driver) readReplication(id cluster.ID) map[int]savedReplication {
	all := map[int]savedReplication{}
	content, err := os.ReadFile(d.layout.replication(id))
	if err != nil || json.Unmarshal(content, &all) != nil {
		return nil
	}
	return all
}
