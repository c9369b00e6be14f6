package parameter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"steward/internal/fault"
)

// Config is what was chosen for a database: values by the parameters' names. They
// are bool, string, int64, or float64 where they aren't whole. No Config is changed
// once it is made.
type Config map[string]any

// UnmarshalJSON reads numbers as Config holds them.
func (c *Config) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return fmt.Errorf("read engine_config: %w", err)
	}
	*c = nil
	for name, value := range all {
		if *c == nil {
			*c = Config{}
		}
		(*c)[name] = canonical(value)
	}
	return nil
}

// Text is the config as JSON, the same for the same values, and "" for none.
func (c Config) Text() string {
	if len(c) == 0 {
		return ""
	}
	text, err := json.Marshal(map[string]any(c))
	if err != nil {
		panic(fmt.Sprintf("engine_config: %v", err)) // it holds nothing that has no JSON
	}
	return string(text)
}

// FromText reads what Text wrote.
func FromText(text string) (Config, error) {
	if text == "" {
		return nil, nil
	}
	var c Config
	err := json.Unmarshal([]byte(text), &c)
	return c, err
}

// Sectioned is the config as the API shows it, with every section of the family.
func (c Config) Sectioned(family string) map[string]any {
	shown := map[string]any{}
	for _, section := range Sections(family) {
		shown[section] = map[string]any{}
	}
	for name, value := range c {
		section, key := Parameter{Name: name}.Section()
		if section == "" {
			shown[key] = value
			continue
		}
		in, ok := shown[section].(map[string]any)
		if !ok {
			in = map[string]any{}
			shown[section] = in
		}
		in[key] = value
	}
	return shown
}

// Merge is the config with what a request asks for, null taking values away. Every
// fault is named by its member. A value that is there already isn't judged anew.
func (c Config) Merge(asked map[string]any, s Server) (Config, fault.Faults) {
	var faults fault.Faults
	changes := c.flatten(asked, s.Family, &faults)
	merged := maps.Clone(c)
	if merged == nil {
		merged = Config{}
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		value := canonical(changes[name])
		p, known := find(s.Family, name)
		switch {
		case value == nil:
			delete(merged, name)
		case !known:
			faults.Add(field(name), "%s", unknown(s.Family, name))
		case merged[name] == value:
		default:
			if reason := p.Judge(value, s); reason != "" {
				faults.Add(field(name), "%s", reason)
				continue
			}
			merged[name] = value
		}
	}
	faults = append(faults, merged.unloaded(s.Family, changes)...)
	if len(merged) == 0 {
		merged = nil
	}
	return merged, faults
}

// flatten gives each value that is asked for its parameter's name. A section that is
// null asks for none of its values.
func (c Config) flatten(asked map[string]any, family string, faults *fault.Faults) map[string]any {
	flat := map[string]any{}
	for member, value := range asked {
		if !slices.Contains(Sections(family), member) {
			flat[member] = value
			continue
		}
		switch section := value.(type) {
		case nil:
			for name := range c {
				if strings.HasPrefix(name, member+".") {
					flat[name] = nil
				}
			}
		case map[string]any:
			for key, v := range section {
				flat[member+"."+key] = v
			}
		default:
			faults.Add(field(member), "Must be an object")
		}
	}
	return flat
}

// field is where a request has a parameter.
func field(name string) string { return "engine_config." + name }

// unknown says why a member is no parameter.
func unknown(family, name string) string {
	if why := refusals(family)[name]; why != "" {
		return "Can't be chosen: " + why
	}
	return "There is no such parameter; GET /v4/databases/" + family + "/config lists those there are"
}

// canonical is a JSON value as Config holds it: numbers that are whole as int64.
func canonical(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return string(v) // which no number's parameter takes
		}
		return canonical(f)
	case int:
		return int64(v)
	case float64:
		const exact = 1 << 53
		if v == math.Trunc(v) && math.Abs(v) <= exact {
			return int64(v)
		}
	}
	return value
}

// Chosen is a value with its parameter.
type Chosen struct {
	Parameter
	Value any
}

// Values are the values that a server takes, ordered by their names.
func (c Config) Values(s Server) []Chosen {
	var all []Chosen
	for _, p := range Of(s.Family) {
		if value, there := c[p.Name]; there && p.OfferedOn(s) {
			all = append(all, Chosen{p, value})
		}
	}
	return all
}

// OfferedOn is the part of the config that a server has, and the names of the others.
func (c Config) OfferedOn(s Server) (kept Config, dropped []string) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if p, known := find(s.Family, name); !known || !p.OfferedOn(s) {
			dropped = append(dropped, name)
			continue
		}
		if kept == nil {
			kept = Config{}
		}
		kept[name] = c[name]
	}
	return kept, dropped
}

// Rendered is the value as PostgreSQL's file has it, with its unit.
func (c Chosen) Rendered() string {
	switch v := c.Value.(type) {
	case bool:
		if v {
			return "on"
		}
		return "off"
	case int64:
		if v < 0 {
			return strconv.FormatInt(v, 10) // -1 is a word, not an amount
		}
		return strconv.FormatInt(v, 10) + c.unit
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64) + c.unit
	}
	return fmt.Sprint(c.Value)
}

// Restarts are the parameters whose values differ between two configs and that need
// a restart, by name.
func (c Config) Restarts(other Config, family string) []string {
	var names []string
	for _, p := range Of(family) {
		if p.Restart && c[p.Name] != other[p.Name] {
			names = append(names, p.Name)
		}
	}
	return names
}

// Lowers reports whether other has less of something of which a replica must not
// have less than its primary: then the primary gives it up first.
func (c Config) Lowers(other Config, family string) bool {
	for _, p := range Of(family) {
		if p.replicated && c.amount(p) > other.amount(p) {
			return true
		}
	}
	return false
}

// amount is a number's value, or its default, which is the least that can be chosen.
func (c Config) amount(p Parameter) int64 {
	if n, ok := c[p.Name].(int64); ok {
		return n
	}
	return int64(p.Minimum)
}
