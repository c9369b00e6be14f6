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

// standing is how a node of a cluster with several stood when it was last
// asked, for other processes to read.
type standing struct {
	Streaming bool          `json:"streaming"`
	Lag       time.Duration `json:"lag_ns"`
	Position  string        `json:"position"`
	Problem   string        `json:"problem,omitempty"`
	At        time.Time     `json:"at"`
}

// standings is the file of a cluster's; a reboot takes it away.
func (l layout) standings(id cluster.ID) string {
	return filepath.Join(l.run, fmt.Sprintf("%d.json", id))
}

// tellStandings saves how the nodes of a cluster stand, when it has several.
func (d *Driver) tellStandings(cs *clusterState) {
	top, err := d.topology(cs.id)
	if err == nil && top.Members > 1 {
		err = d.saveStandings(cs, top)
	}
	if err != nil {
		d.log.Warn("tell how nodes stand", "cluster_id", cs.id, "error", err)
	}
}

func (d *Driver) saveStandings(cs *clusterState, top topology) error {
	all := map[int]standing{}
	for ordinal := range top.Members {
		if s, at := cs.node(ordinal).lastStanding(); !at.IsZero() {
			all[ordinal] = standing{Streaming: s.Streaming, Lag: s.Lag, Position: s.Position, Problem: s.Problem, At: at}
		}
	}
	content, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("save standings: %w", err)
	}
	return process.WriteFile(d.layout.standings(cs.id), content, 0o600)
}

// standings are those last saved; none when there are none.
func (d *Driver) standings(id cluster.ID) map[int]standing {
	all := map[int]standing{}
	content, err := os.ReadFile(d.layout.standings(id))
	if err != nil || json.Unmarshal(content, &all) != nil {
		return nil
	}
	return all
}
