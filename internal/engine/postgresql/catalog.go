package postgresql

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"steward/internal/catalog"
	"steward/internal/engine"
	"steward/internal/parameter"
)

// Catalog implements engine.Extensible, by the extensions' control files.
func (Driver) Catalog(inst engine.Installation) ([]catalog.Extension, error) {
	paths, err := controlFiles(inst)
	if err != nil {
		return nil, err
	}
	var all []catalog.Extension
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		content, err := os.ReadFile(paths[name])
		if err != nil {
			return nil, fmt.Errorf("look at the extension %s of %s: %w", name, inst.ID(), err)
		}
		control := parseControl(content)
		x := catalog.Extension{Name: name, Version: control["default_version"], Comment: control["comment"]}
		x.Parameter = parameter.Loader(vetted[name].library)
		x.Missing = missing(name, control["trusted"] == "true" || control["superuser"] == "false", inst.Libraries)
		all = append(all, x)
	}
	return all, nil
}

// parseControl reads a control file: name = value, with or without quotes.
func parseControl(content []byte) map[string]string {
	values := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		value = strings.TrimSpace(value)
		if quote, rest, _ := strings.Cut(value, "'"); quote == "" && rest != "" {
			rest = strings.ReplaceAll(rest, "''", "\x00")
			value, _, _ = strings.Cut(rest, "'")
			value = strings.ReplaceAll(value, "\x00", "'")
		} else {
			value, _, _ = strings.Cut(value, "#")
		}
		values[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return values
}
