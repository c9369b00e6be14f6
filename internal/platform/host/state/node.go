package state

import (
	"net/netip"
	"path/filepath"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/parameter"
	"steward/internal/process"
)

// Node is what was done for a node, kept in its folder. No secret is in it.
type Node struct {
	Cluster cluster.ID     `json:"cluster"`
	Ordinal int            `json:"ordinal"`
	Engine  cluster.Engine `json:"engine"`
	Port    int            `json:"port"`
	// Installation is the build that the data belongs to.
	Installation string `json:"installation"`
	// Bootstrapped reports whether the server has the cluster's own passwords; from
	// then on the data is the customer's.
	Bootstrapped bool `json:"bootstrapped"`
	// Upgrading reports whether the data was given to a newer build whose work on it
	// isn't known to be finished.
	Upgrading bool `json:"upgrading,omitempty"`
	// RestartDue reports whether the running server has read settings which it takes
	// over at its next start only.
	RestartDue bool `json:"restart_due,omitempty"`
	// ReadOnly is the disk guard.
	ReadOnly bool `json:"read_only,omitempty"`
	// Encrypted data needs its keys in memory before the server starts.
	Encrypted bool `json:"encrypted,omitempty"`
	// Boot is the boot in which the data was cloned.
	Boot string `json:"boot"`
	// Launch is how the server was last started, and is started after a crash.
	Launch *Launch `json:"launch,omitempty"`
	// Loaded is a digest of the files that the running server has read.
	Loaded string `json:"loaded,omitempty"`
	// Fenced is which of our fences the data has, as far as is known: files that were
	// loaded say nothing of them.
	Fenced int `json:"fenced,omitempty"`
	// Applied is what was last brought about in full; nil before the first time.
	Applied *Settings `json:"applied,omitempty"`
}

// Settings are the parts of a cluster that may ask for a restart when they change.
type Settings struct {
	Plan          catalog.Plan   `json:"plan"`
	SSLConnection bool           `json:"ssl_connection"`
	Commit        cluster.Commit `json:"commit"`
	// Replication is how others follow; "" when the node is alone.
	Replication cluster.Replication `json:"replication,omitempty"`
	// Config are the settings that the customer chose, as text, since these are compared.
	Config string `json:"config,omitempty"`
}

// Launch is a server's start, repeatable without knowing anything else.
type Launch struct {
	Installation string              `json:"installation"`
	Argv         []string            `json:"argv"`
	Env          []string            `json:"env"`
	WorkDir      string              `json:"work_dir"`
	User         int                 `json:"user"`
	Sandboxed    bool                `json:"walled"`
	Limits       process.GroupLimits `json:"limits"`
	Rlimits      process.Rlimits     `json:"rlimits"`
	// Listen is where the server listens: on loopback when it isn't said, else in a network of its own.
	Listen netip.AddrPort `json:"listen,omitzero"`
	// Config are the customer's settings at the start.
	Config parameter.Config `json:"config,omitempty"`
	// Restart is the request that the server was started anew for; 0 for another reason.
	Restart int64 `json:"restart,omitempty"`
}

// Networked reports whether the server was started in a network of its own.
func (l *Launch) Networked() bool {
	return l != nil && l.Listen.IsValid() && !l.Listen.Addr().IsLoopback()
}

// NodeFile is the record in a node's folder.
func NodeFile(nodeDir string) string { return filepath.Join(nodeDir, "node.json") }

// ReadNode returns the record in a node's folder; nil when there is none. Until the
// server is bootstrapped, the clone's template file stands in for a record that a crash
// of the machine tore.
func ReadNode(nodeDir string) (*Node, error) {
	n, found, err := Read[Node](NodeFile(nodeDir))
	if err != nil && found && templated(nodeDir) {
		return nil, nil
	}
	if err != nil || !found {
		return nil, err
	}
	return &n, nil
}

// Write replaces the record. When durably, it is on the disk when Write
// returns: from Bootstrapped on, losing it would mean not knowing whose data that is.
func (n *Node) Write(nodeDir string, durably bool) error {
	if durably {
		return Write(NodeFile(nodeDir), n)
	}
	return WriteSoon(NodeFile(nodeDir), n)
}
