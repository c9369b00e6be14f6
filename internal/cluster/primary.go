package cluster

import "time"

// PrimaryChange is one change of the primary.
type PrimaryChange struct {
	// From and To are the ordinals of the old and the new primary.
	From int `json:"from"`
	To   int `json:"to"`
	// Planned reports whether the old one handed its role over; otherwise it had failed.
	Planned bool `json:"planned,omitempty"`
	// Took is from when the old one was found to be down, or began to stop, until writes were
	// led to the new one; 0 when that isn't known.
	Took time.Duration `json:"took_ns,omitempty"`
	// Began is when that was, for who finishes what another has begun; zero in what older stewards wrote.
	Began time.Time `json:"began,omitzero"`
}

// Unfinished reports whether the new primary doesn't take writes yet, as far as is known.
func (c PrimaryChange) Unfinished() bool { return c.Took == 0 && !c.Began.IsZero() }
