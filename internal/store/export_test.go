package store

import (
	"context"
	"time"
)

// SetFreeWithin sets how long transactions wait for a connection that is in use.
func (s *Store) SetFreeWithin(d time.Duration) { s.pool.within = d }

// Waits reports whether somebody waits for a connection that is in use.
func (s *Store) Waits() bool { return len(s.pool.turn) > 0 }

// ConnsAtOnce are opened without a pause.
const ConnsAtOnce = connsAtOnce

// SelectCluster is what is read of a database.
const SelectCluster = selectCluster

// Persist does something as often as the store is asked for what only reads.
func Persist(ctx context.Context, do func() error) error { return persist(ctx, lostAtAll, do) }
