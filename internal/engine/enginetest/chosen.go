package enginetest

import (
	"strings"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/parameter"
)

// DrawnConfig are settings that a customer may choose for a server: bounds more often
// than anything between, and no more than the plan bears. The same number draws the same.
func DrawnConfig(s parameter.Server, number int) parameter.Config {
	return rapid.Custom(func(t *rapid.T) parameter.Config { return drawConfig(t, s) }).Example(number)
}

func drawConfig(t *rapid.T, s parameter.Server) parameter.Config {
	asked := map[string]any{}
	for _, p := range parameter.Of(s.Family) {
		if value := drawValue(t, p, s); value != nil {
			asked[p.Name] = value
		}
	}
	for {
		config, faults := parameter.Config(nil).Merge(nested(asked, s.Family), s)
		if faults = append(faults, config.Fits(s)...); len(faults) == 0 {
			return config
		}
		leaveOut(asked, faults)
	}
}

func leaveOut(asked map[string]any, faults fault.Faults) {
	for _, f := range faults {
		delete(asked, strings.TrimPrefix(f.Field, "engine_config."))
	}
}

// nested is what a request has for values by name.
func nested(flat map[string]any, family string) map[string]any {
	return parameter.Config(flat).Sectioned(family)
}

// drawValue is nil for a parameter that isn't chosen.
func drawValue(t *rapid.T, p parameter.Parameter, s parameter.Server) any {
	if !rapid.Bool().Draw(t, p.Name+" is chosen") {
		return nil
	}
	switch {
	case p.Type == parameter.Boolean:
		return rapid.Bool().Draw(t, p.Name)
	case p.Type == parameter.Number:
		return rapid.Float64Range(p.Minimum, p.Maximum).Draw(t, p.Name)
	case p.Type == parameter.Integer:
		step := max(1, p.Step)
		least, most := int64(p.Minimum), p.Most(s)
		between := rapid.Int64Range((least+step-1)/step, most/step).Draw(t, p.Name) * step
		return rapid.SampledFrom([]int64{least, most / step * step, between}).Draw(t, p.Name+" of these")
	case len(p.Enum) > 0:
		return rapid.SampledFrom(p.Enum).Draw(t, p.Name)
	case p.Setting() == "sql_mode":
		modes := []string{"", "ANSI,TRADITIONAL", "NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY", "PAD_CHAR_TO_FULL_LENGTH,STRICT_ALL_TABLES"}
		return rapid.SampledFrom(modes).Draw(t, p.Name)
	}
	return rapid.SampledFrom([]string{"SYSTEM", "+00:00", "-12:59", "+13:00"}).Draw(t, p.Name)
}
