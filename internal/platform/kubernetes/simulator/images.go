package simulator

import (
	"testing"

	"steward/internal/engine"
	"steward/internal/engine/enginetest"
)

// Images has for each image the build of its version, which the driver finds.
func Images(t testing.TB, driver engine.Driver, versions map[string]string) map[string]engine.Installation {
	t.Helper()
	found, _ := driver.Discover(t.Context(), []string{enginetest.EnginesFolder()})
	images := map[string]engine.Installation{}
	for _, i := range found {
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
