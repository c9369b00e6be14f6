package enginetest

import (
	"slices"
	"testing"

	"steward/internal/engine"
)

func TestShortPathNamesChecks(t *testing.T) {
	t.Parallel()
	all := slices.Concat(basicCases(), replicationCases(), backupCases(), pitrCases(Options{NewUser: func(engine.Installation) []string { return nil }}))
	for _, name := range slices.Concat(shortPath, otherPath, thoroughPath, partlyRun) {
		if !slices.ContainsFunc(all, func(c Check) bool { return c.Name == name }) {
			t.Errorf("there is no check %q", name)
		}
	}
	for _, name := range otherParts {
		if !slices.ContainsFunc(serverParts(), func(p part[*Server]) bool { return p.name == name }) {
			t.Errorf("one server has no part %q", name)
		}
	}
}
