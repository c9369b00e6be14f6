package api_test

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"steward/internal/api"
	"steward/internal/catalog"
	"steward/internal/control"
)

var update = flag.Bool("update", false, "write api/openapi.yaml anew")

const documentPath = "../../api/openapi.yaml"

// TestDocument proves that the committed document is the one the code makes.
func TestDocument(t *testing.T) {
	made, err := api.New(api.Options{
		Control: control.New(control.Deps{}), Catalog: &catalog.Catalog{}, Logger: slog.New(slog.DiscardHandler),
	}).Document()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(documentPath, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(documentPath)
	if err != nil {
		t.Fatal(err)
	}
	if string(committed) != string(made) {
		t.Error("api/openapi.yaml is not current: run make generate")
	}
}
