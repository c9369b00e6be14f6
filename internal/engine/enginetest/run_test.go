package enginetest

import (
	"slices"
	"testing"

	"steward/internal/engine"
)

// feeder has the checks of a driver that archives its logs when asked.
type feeder struct {
	engine.Driver
	engine.Feeder
}

func TestShortPathNamesChecks(t *testing.T) {
	t.Parallel()
	all := slices.Concat(replicationCases(), backupCases(), pitrCases(feeder{}))
	for _, name := range shortPath {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.Name == name }) {
			t.Errorf("there is no check %q", name)
		}
	}
}
