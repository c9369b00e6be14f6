package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"steward/internal/monitor"
)

// file is an operator's catalog; a part that is left out keeps its default.
type file struct {
	Types   []Plan   `yaml:"types"`
	Regions []Region `yaml:"regions"`
}

// New makes the catalog from the text of an operator's file (empty for the
// built-in plans and regions) and the engines found. All problems of the text
// come back at once, each naming its place.
func New(text []byte, engines []Engine) (*Catalog, error) {
	c := &Catalog{Plans: DefaultPlans(), Regions: DefaultRegions(), Engines: engines}
	f, err := parse(text)
	if err != nil {
		return nil, err
	}
	if f.Types != nil {
		c.Plans = f.Types
	}
	if f.Regions != nil {
		c.Regions = f.Regions
	}
	return c, nil
}

func parse(text []byte) (file, error) {
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return f, err // it names line and key
	}
	return f, errors.Join(append(validatePlans(f.Types), validateRegions(f.Regions)...)...)
}

func validatePlans(plans []Plan) []error {
	var errs []error
	seen := map[string]bool{}
	for i, p := range plans {
		bad := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("types[%d] (%s): "+format, append([]any{i, p.ID}, args...)...))
		}
		if p.ID == "" {
			bad("id is required")
		}
		if seen[p.ID] {
			bad("id is there twice")
		}
		seen[p.ID] = true
		if p.MemoryMB < 512 {
			bad("memory must be at least 512 MB")
		}
		if p.DiskMB < 1024 {
			bad("disk must be at least 1024 MB")
		}
		if p.VCPUs < 1 {
			bad("vcpus must be at least 1")
		}
		if p.Hourly < 0 || p.Monthly < 0 {
			bad("prices must not be negative")
		}
	}
	if plans != nil && len(plans) == 0 {
		errs = append(errs, errors.New("types: must not be empty"))
	}
	return errs
}

func validateRegions(regions []Region) []error {
	var errs []error
	seen := map[string]bool{}
	for i, r := range regions {
		if r.ID == "" {
			errs = append(errs, fmt.Errorf("regions[%d]: id is required", i))
		}
		if seen[r.ID] {
			errs = append(errs, fmt.Errorf("regions[%d] (%s): id is there twice", i, r.ID))
		}
		seen[r.ID] = true
		for _, p := range r.Networks {
			if p != p.Masked() || !monitor.AllowedNetwork(p) {
				errs = append(errs, fmt.Errorf("regions[%d] (%s): networks: %s is no private network such as 10.1.0.0/16", i, r.ID, p))
			}
		}
	}
	errs = append(errs, validatePlatforms(regions)...)
	if regions != nil && len(regions) == 0 {
		errs = append(errs, errors.New("regions: must not be empty"))
	}
	return errs
}
