package postgresql

import (
	"slices"

	"steward/internal/engine"
	"steward/internal/parameter"
)

// withChosen lays the settings that the customer chose over those of the plan.
func withChosen(all []setting, n engine.Node) []setting {
	for _, c := range n.Config.Values(n.Server()) {
		s := setting{name: c.Setting(), value: chosenValue(c, n)}
		if i := slices.IndexFunc(all, func(o setting) bool { return o.name == s.name }); i >= 0 {
			all[i] = s
		} else {
			all = append(all, s)
		}
	}
	return all
}

// chosenValue is a value as the server's file has it. The cache is chosen as a share
// of the plan's memory.
func chosenValue(c parameter.Chosen, n engine.Node) string {
	if c.Name != "shared_buffers_percentage" {
		return c.Rendered()
	}
	percent := 0.0
	switch v := c.Value.(type) {
	case int64:
		percent = float64(v)
	case float64:
		percent = v
	}
	return megabytes(int(float64(n.Plan.MemoryMB) * percent / 100))
}
