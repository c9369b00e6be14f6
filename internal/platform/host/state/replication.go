package state

import (
	"time"
)

// Replication is a node's last replication status, for other processes to read.
type Replication struct {
	Streaming bool          `json:"streaming"`
	Lag       time.Duration `json:"lag_ns"`
	Position  string        `json:"position"`
	Problem   string        `json:"problem,omitempty"`
	At        time.Time     `json:"at"`
	// CaughtUp is the process of the server if it has received, since it was started, all
	// that its primary had; 0 otherwise.
	CaughtUp int `json:"caught_up,omitempty"`
}
