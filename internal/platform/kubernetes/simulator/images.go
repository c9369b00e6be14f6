package simulator

import (
	"fmt"
	"sync"
	"testing"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// builds are those that drivers have found, by the drivers' types: to look for them starts a program of each.
var (
	buildsMu sync.Mutex
	builds   = map[string][]engine.Installation{}
)

func buildsOf(t testing.TB, driver engine.Driver) []engine.Installation {
	t.Helper()
	buildsMu.Lock()
	defer buildsMu.Unlock()
	of := fmt.Sprintf("%T", driver)
	if builds[of] == nil {
		builds[of], _ = driver.Discover(t.Context(), []string{enginetest.EnginesFolder()})
	}
	return builds[of]
}

// Images has for each image the build of its version, which the driver finds.
func Images(t testing.TB, driver engine.Driver, versions map[string]string) map[string]engine.Installation {
	t.Helper()
	images := map[string]engine.Installation{}
	for _, i := range buildsOf(t, driver) {
		for image, version := range versions {
			if i.Version == version && (i.Builder == "npm" || i.Flavour == engine.FlavourMariaDB) {
				images[image] = i
			}
		}
	}
	if len(images) != len(versions) {
		t.Fatalf("there are versions to be tested with (scripts/fetch-engines --ci), found %v", images)
	}
	return images
}
