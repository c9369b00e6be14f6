package client

import (
	"context"
	"net/http"
)

// Nodes are the servers behind a database.
type Nodes struct {
	// Sleeping reports whether no server runs until somebody connects, SleepingSince since when.
	Sleeping      bool   `json:"sleeping"`
	SleepingSince string `json:"sleeping_since"`
	Data          []Node `json:"data"`
}

// Node is one server process. What isn't known is "" or nil.
type Node struct {
	Node       int      `json:"node"`
	Role       string   `json:"role"`
	Health     string   `json:"health"`
	Since      string   `json:"since"`
	Version    string   `json:"version"`
	Started    string   `json:"started"`
	Position   string   `json:"position"`
	LagSeconds *float64 `json:"lag_seconds"`
	LagBytes   *int64   `json:"lag_bytes"`
	Address    string   `json:"address"`
}

// PrimaryChange is one change of a database's primary. What isn't known is nil.
type PrimaryChange struct {
	Time    string   `json:"time"`
	Kind    string   `json:"kind"`
	From    *int     `json:"from"`
	To      *int     `json:"to"`
	Seconds *float64 `json:"seconds"`
	Message string   `json:"message"`
}

// Nodes are those of a database.
func (c *Client) Nodes(ctx context.Context, d Database) (Nodes, error) {
	return ask[Nodes](ctx, c, http.MethodGet, d.Path()+"/nodes", nil)
}

// NodeHistory are the changes of a database's primary, newest first, at most about as many as
// asked for (0: all).
func (c *Client) NodeHistory(ctx context.Context, d Database, most int) ([]PrimaryChange, error) {
	return list[PrimaryChange](ctx, c, d.Path()+"/nodes/history", most)
}
