package harness

import (
	"os"
	"path/filepath"
	"testing"
)

// InstallEngine puts a server build that `make test` has fetched into a folder where a
// server looks for builds.
func InstallEngine(t testing.TB, engines, build string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(EnginesFolder(), build, "engine.json"))
	if err != nil {
		t.Fatal("run make engines-ci: ", err)
	}
	if err := os.Mkdir(filepath.Join(engines, build), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(engines, build, "engine.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
}
