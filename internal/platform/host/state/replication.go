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
}
