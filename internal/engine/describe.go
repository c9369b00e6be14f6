package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Described reads the engine.json files in the folders and one level below,
// and returns the installations of the wanted flavours. Relative paths in a
// file are relative to its folder, so that a folder can be moved.
func Described(folders []string, flavours ...Flavour) (found []Installation, notes []error) {
	for _, folder := range folders {
		folder, err := filepath.Abs(folder)
		if err != nil {
			notes = append(notes, fmt.Errorf("look for engines: %w", err))
			continue
		}
		for _, pattern := range []string{"engine.json", "*/engine.json"} {
			files, err := filepath.Glob(filepath.Join(folder, pattern))
			if err != nil {
				notes = append(notes, fmt.Errorf("look for engines in %s: %w", folder, err))
				continue
			}
			for _, file := range files {
				inst, err := readDescription(file)
				if err != nil {
					notes = append(notes, err)
				} else if slices.Contains(flavours, inst.Flavour) {
					found = append(found, inst)
				}
			}
		}
	}
	return found, notes
}

func readDescription(file string) (Installation, error) {
	var inst Installation
	content, err := os.ReadFile(file)
	if err != nil {
		return inst, fmt.Errorf("read description of an engine: %w", err)
	}
	if err := json.Unmarshal(content, &inst); err != nil {
		return inst, fmt.Errorf("read %s: %w", file, err)
	}
	for name, value := range map[string]string{
		"flavour": string(inst.Flavour), "series": inst.Series, "version": inst.Version, "builder": inst.Builder,
	} {
		if value == "" {
			return inst, fmt.Errorf("read %s: %s is missing", file, name)
		}
	}
	absolute := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(file), path)
	}
	inst.Home, inst.Share, inst.PluginDir = absolute(inst.Home), absolute(inst.Share), absolute(inst.PluginDir)
	for name, path := range inst.Bin {
		inst.Bin[name] = absolute(path)
	}
	return inst, nil
}
