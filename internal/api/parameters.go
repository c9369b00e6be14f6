package api

import (
	"steward/internal/cluster"
	"steward/internal/parameter"
)

// Configured are the settings that are asked for. Exported, since Huma looks into
// exported members only.
type Configured struct {
	EngineConfig map[string]any `json:"engine_config,omitempty" nullable:"true" doc:"Settings of the server, in the sections that GET /databases/mysql/config and /databases/postgresql/config list. What is left out stays, null takes a value away."`
}

// parameterView is a setting that can be chosen.
type parameterView struct {
	Description     string   `json:"description"`
	Type            string   `json:"type" enum:"integer,number,boolean,string"`
	Minimum         *float64 `json:"minimum,omitempty"`
	Maximum         *float64 `json:"maximum,omitempty"`
	MultipleOf      int64    `json:"multipleOf,omitempty"`
	MaxLength       int      `json:"maxLength,omitempty"`
	Pattern         string   `json:"pattern,omitempty"`
	Enum            []string `json:"enum,omitempty"`
	Example         any      `json:"example"`
	RequiresRestart bool     `json:"requires_restart"`
}

func showParameter(p parameter.Parameter) parameterView {
	v := parameterView{
		Description: p.Description, Type: string(p.Type), MultipleOf: p.Step, MaxLength: p.MaxLength, Pattern: p.Pattern,
		Enum: p.Enum, Example: p.Example, RequiresRestart: p.Restart,
	}
	if only := p.Only(); only != "" {
		v.Description += " Only on " + only + "."
	}
	if p.Type == parameter.Integer || p.Type == parameter.Number {
		v.Minimum, v.Maximum = &p.Minimum, &p.Maximum
	}
	return v
}

// showParameters are all settings of an engine, in their sections.
func showParameters(engine cluster.Engine) map[string]any {
	chosen := parameter.Config{}
	for _, p := range parameter.Of(string(engine)) {
		chosen[p.Name] = showParameter(p)
	}
	return chosen.Sectioned(string(engine))
}
