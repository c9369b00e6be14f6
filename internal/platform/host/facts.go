package host

import (
	"fmt"

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
		n := NodeInfo{
			Cluster: rec.Cluster, Engine: rec.Engine, Installation: rec.Installation, Ordinal: rec.Ordinal,
			Role: d.roleOf(rec), Address: listenAddress(rec.Ordinal, rec.Port).String(), Port: rec.Port,
			Folder: dir, Log: outputFile(dir),
		}
		if p := d.unit(rec.Cluster).member(rec.Ordinal).process(); p != nil && p.Running() {
			n.Pid, n.Running = p.Pid(), true
		}
		list = append(list, n)
	}
	return list, nil
}

// roleOf is what a node is by the topology on record.
func (d *Driver) roleOf(rec *record) cluster.Role {
	top, err := d.topology(rec.Cluster)
	if err != nil {
		return ""
	}
	return top.role(rec.Ordinal)
}

// Facts describe how servers are walled in here, for `steward doctor`.
type Facts struct {
	ControlGroups string   `json:"control_groups"`
	Bubblewrap    bool     `json:"bubblewrap"`
	OwnUsers      bool     `json:"own_users"`
	Weaknesses    []string `json:"weaknesses"`
}

// Facts looks at what New found.
func (d *Driver) Facts() Facts {
	return Facts{
		ControlGroups: d.groups.Kind(), Bubblewrap: d.walls != nil,
		OwnUsers: d.user(d.o.Ports[0]) != 0, Weaknesses: d.lacks,
	}
}
