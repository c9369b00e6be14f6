package enginetest

import (
	"strings"

	"pgregory.net/rapid"

	"steward/internal/fault"
	"steward/internal/parameter"
)

// DrawnConfig are settings that a customer may choose for a server, no more than the plan
// bears: 0 is the least of everything, 1 the most, and others are drawn, bounds more often
// than anything between. The same number draws the same.
func DrawnConfig(s parameter.Server, number int) parameter.Config {
	if number < 2 {
		return configOf(s, func(p parameter.Parameter) any { return bound(p, s, number == 0) })
	}
	return rapid.Custom(func(t *rapid.T) parameter.Config {
		return configOf(s, func(p parameter.Parameter) any { return drawValue(t, p, s) })
	}).Example(number)
}

// configOf has the values that choose gives, but for those that don't fit.
func configOf(s parameter.Server, choose func(parameter.Parameter) any) parameter.Config {
	asked := map[string]any{}
	for _, p := range parameter.Of(s.Family) {
		if value := choose(p); value != nil {
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

// bound is the least or the most of a parameter, the first or the last of a list.
func bound(p parameter.Parameter, s parameter.Server, least bool) any {
	choices := texts(p)
	switch {
	case p.Type == parameter.Boolean:
		return !least
	case p.Type == parameter.Text && least:
		return choices[0]
	case p.Type == parameter.Text:
		return choices[len(choices)-1]
	case least:
		return p.Minimum
	case p.Type == parameter.Number:
		return p.Maximum
	}
	return p.Most(s)
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
	}
	return rapid.SampledFrom(texts(p)).Draw(t, p.Name)
}

// texts are some that a parameter takes.
func texts(p parameter.Parameter) []string {
	switch {
	case len(p.Enum) > 0:
		return p.Enum
	case p.Setting() == "sql_mode":
		return []string{"", "ANSI,TRADITIONAL", "NO_BACKSLASH_ESCAPES,ONLY_FULL_GROUP_BY", "PAD_CHAR_TO_FULL_LENGTH,STRICT_ALL_TABLES"}
	}
	return []string{"SYSTEM", "+00:00", "-12:59", "+13:00"}
}
