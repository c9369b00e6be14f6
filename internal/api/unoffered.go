package api

import "steward/internal/fault"

// Unoffered are members that clients know for what isn't offered here. They may
// say so themselves; what asks for more is refused, not ignored. Exported, since
// Huma looks into exported members only.
type Unoffered struct {
	PrivateNetwork map[string]any `json:"private_network,omitempty" nullable:"true" doc:"Null: private networks aren't offered."`
}

// refuse names the members that ask for something.
func (u Unoffered) refuse(faults *fault.Faults) {
	if u.PrivateNetwork != nil {
		faults.Add("private_network", "Private networks aren't offered")
	}
}
