package api

import "steward/internal/fault"

// Unoffered are members that clients know for what isn't offered here. They may
// say so themselves; what asks for more is refused, not ignored. Exported, since
// Huma looks into exported members only.
type Unoffered struct {
	PrivateNetwork map[string]any `json:"private_network,omitempty" nullable:"true" doc:"Null: private networks aren't offered."`
	EngineConfig   map[string]any `json:"engine_config,omitempty" nullable:"true" doc:"Without settings: they follow from the plan, and none can be chosen yet."`
}

// refuse names the members that ask for something.
func (u Unoffered) refuse(faults *fault.Faults) {
	if u.PrivateNetwork != nil {
		faults.Add("private_network", "Private networks aren't offered")
	}
	for _, section := range u.EngineConfig {
		if setsAnything(section) {
			faults.Add("engine_config", "Server settings can't be chosen yet; they follow from the type")
			return
		}
	}
}

// setsAnything reports whether a section of engine_config asks for a setting.
// Null takes one away, and there are none.
func setsAnything(section any) bool {
	settings, ok := section.(map[string]any)
	if !ok {
		return section != nil
	}
	for _, value := range settings {
		if value != nil {
			return true
		}
	}
	return false
}
