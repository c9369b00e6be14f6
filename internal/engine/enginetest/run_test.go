package enginetest

import (
	"slices"
	"testing"

	"steward/internal/engine"
)

func TestShortPathNamesChecks(t *testing.T) {
	t.Parallel()
	all := slices.Concat(replicationCases(), backupCases(), pitrCases(Options{NewUser: func(engine.Installation) []string { return nil }}))
	for _, name := range shortPath {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.Name == name }) {
			t.Errorf("there is no check %q", name)
		}
	}
}
