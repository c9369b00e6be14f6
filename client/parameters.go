package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Parameter is a setting of a server that can be chosen.
type Parameter struct {
	// Name is its member of engine_config, with its section: "pg.jit", "work_mem".
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Type        string   `json:"type"`
	Minimum     *float64 `json:"minimum,omitempty"`
	Maximum     *float64 `json:"maximum,omitempty"`
	MultipleOf  int64    `json:"multipleOf,omitempty"`
	MaxLength   int      `json:"maxLength,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Example     any      `json:"example"`
	// RequiresRestart reports whether servers are restarted for it.
	RequiresRestart bool `json:"requires_restart"`
}

// Parameters are all settings that can be chosen for an engine, mysql or postgresql,
// ordered by name.
func (c *Client) Parameters(ctx context.Context, engine string) ([]Parameter, error) {
	var sections map[string]json.RawMessage
	if err := c.do(ctx, "GET", "/v4/databases/"+engine+"/config", nil, &sections); err != nil {
		return nil, err
	}
	var all []Parameter
	for name, text := range sections {
		var p Parameter
		if err := json.Unmarshal(text, &p); err == nil && p.Type != "" {
			p.Name = name
			all = append(all, p)
			continue
		}
		var section map[string]Parameter
		if err := json.Unmarshal(text, &section); err != nil {
			return nil, fmt.Errorf("read the parameters of %s: %w", engine, err)
		}
		for key, p := range section {
			p.Name = name + "." + key
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// EngineConfig are values by their names without sections around them: "pg.jit".
type EngineConfig map[string]any

// MarshalJSON puts the values into their sections.
func (c EngineConfig) MarshalJSON() ([]byte, error) {
	nested := map[string]any{}
	for name, value := range c {
		section, key, found := strings.Cut(name, ".")
		if !found {
			nested[name] = value
			continue
		}
		in, ok := nested[section].(map[string]any)
		if !ok {
			in = map[string]any{}
			nested[section] = in
		}
		in[key] = value
	}
	return json.Marshal(nested)
}

// UnmarshalJSON takes the values out of their sections. Numbers are json.Number.
func (c *EngineConfig) UnmarshalJSON(text []byte) error {
	var nested map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	if err := decoder.Decode(&nested); err != nil {
		return err
	}
	*c = EngineConfig{}
	for name, value := range nested {
		section, ok := value.(map[string]any)
		if !ok {
			(*c)[name] = value
			continue
		}
		for key, v := range section {
			(*c)[name+"."+key] = v
		}
	}
	return nil
}
