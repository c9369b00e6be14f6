package host

import (
	"fmt"
	"time"

	"steward/internal/cluster"
)

// NodeInfo is a node as `steward node list` shows it.
type NodeInfo struct {
	Cluster      cluster.ID     `json:"cluster"`
	Engine       cluster.Engine `json:"engine"`
	Installation string         `json:"installation"`
	Ordinal      int            `json:"ordinal"`
	Role         cluster.Role   `json:"role"`
	Pid          int            `json:"pid"`
	Running      bool           `json:"running"`
	Address      string         `json:"address"`
	Port         int            `json:"port"`
	Folder       string         `json:"folder"`
	Log          string         `json:"log"`
	// Of clusters with several nodes, as they stood a moment ago: whether a
	// replica is on its way to follow the primary, or receives what that writes, how
	// long what it has received waits to be applied, how far it is, and what stands in
	// the way.
	Joining    bool    `json:"joining"`
	Streaming  bool    `json:"streaming"`
	LagSeconds float64 `json:"lag_seconds"`
	Position   string  `json:"position,omitempty"`
	Problem    string  `json:"problem,omitempty"`
	// Failovers counts the changes of the cluster's primary, LastFailover is when
	// the last was.
	Failovers    int       `json:"failovers"`
	LastFailover time.Time `json:"last_failover,omitzero"`
}

// Nodes are all nodes of this machine. No server is asked anything.
func (d *Driver) Nodes() ([]NodeInfo, error) {
	records, err := d.records()
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var list []NodeInfo
	for _, rec := range records {
		dir := d.layout.node(rec.Cluster, rec.Ordinal)
		top, err := d.topology(rec.Cluster)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		s, known := d.readReplication(rec.Cluster)[rec.Ordinal]
		n := NodeInfo{
			Joining:   top.Role(rec.Ordinal) == cluster.Replica && (!known || !rec.Bootstrapped),
			Streaming: s.Streaming, LagSeconds: s.Lag.Seconds(), Position: s.Position, Problem: s.Problem,
			Failovers: top.Failovers, LastFailover: top.Last,
			Cluster: rec.Cluster, Engine: rec.Engine, Installation: rec.Installation, Ordinal: rec.Ordinal,
			Role: top.Role(rec.Ordinal), Address: d.launchedAt(rec).String(), Port: rec.Port,
			Folder: dir, Log: outputFile(dir),
		}
		if p := d.clusterState(rec.Cluster).node(rec.Ordinal).process(); p != nil && p.Running() {
			n.Pid, n.Running = p.Pid(), true
		}
		list = append(list, n)
	}
	return list, nil
}

// Facts describe how servers are isolated on this host, for `steward doctor`.
type Facts struct {
	ControlGroups string   `json:"control_groups"`
	Bubblewrap    bool     `json:"bubblewrap"`
	OwnUsers      bool     `json:"own_users"`
	Warnings      []string `json:"warnings"`
}

// Facts looks at what New found.
func (d *Driver) Facts() Facts {
	return Facts{
		ControlGroups: d.groups.Kind(), Bubblewrap: d.sandbox != nil,
		OwnUsers: d.user(d.o.Ports[0]) != 0, Warnings: d.warnings,
	}
}
