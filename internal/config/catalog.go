package config

import (
	"fmt"
	"os"

	"steward/internal/catalog"
)

// Catalog names the file with plans and regions; empty: the built-in ones.
type Catalog struct {
	File string `koanf:"file"`
}

// Load reads the operator's file, if there is one.
func (c Catalog) Load(engines []catalog.Engine) (*catalog.Catalog, error) {
	var text []byte
	if c.File != "" {
		var err error
		if text, err = os.ReadFile(c.File); err != nil {
			return nil, fmt.Errorf("catalog.file: %w", err)
		}
	}
	loaded, err := catalog.New(text, engines)
	if err != nil {
		return nil, fmt.Errorf("catalog.file %s: %w", c.File, err)
	}
	return loaded, nil
}
