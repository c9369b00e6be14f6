package state

import (
	"slices"

	"steward/internal/cluster"
)

// Pooler is what was wanted last of a cluster's connection pools. Without pools, what is left of them is to go.
type Pooler struct {
	// Port is the pooler's, ClusterPort that of the servers.
	Port        int            `json:"port"`
	ClusterPort int            `json:"cluster_port"`
	Pools       []cluster.Pool `json:"pools"`
	// TLSOnly refuses clients without TLS.
	TLSOnly bool `json:"tls_only"`
	// Clients is how many there can be at once.
	Clients int `json:"clients"`
	// Launch is how the process was last started; nil before. Its Installation is the program's version.
	Launch *Launch `json:"launch,omitempty"`
}

// SameAs reports whether two records want the same, however the process was started.
func (p Pooler) SameAs(o Pooler) bool {
	return p.Port == o.Port && p.ClusterPort == o.ClusterPort && p.TLSOnly == o.TLSOnly && p.Clients == o.Clients && slices.Equal(p.Pools, o.Pools)
}
