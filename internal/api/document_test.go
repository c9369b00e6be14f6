package api_test

import (
	"flag"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"go.yaml.in/yaml/v3"

	"steward/internal/api"
	"steward/internal/catalog"
	"steward/internal/control"
)

var update = flag.Bool("update", false, "write the documents in api anew")

// documentPath is read by tests that need the document: TestDocument proves it current, and
// to make it takes as long as many requests.
const documentPath = "../../api/openapi.yaml"

// documentTree is the document, parsed for all tests that walk it.
var documentTree = sync.OnceValues(func() (*yaml.Node, error) {
	text, err := os.ReadFile(documentPath)
	if err != nil {
		return nil, err
	}
	tree := new(yaml.Node)
	return tree, yaml.Unmarshal(text, tree)
})

// readDocument reads what a test wants to know of the document.
func readDocument(t *testing.T, into any) {
	t.Helper()
	tree, err := documentTree()
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// TestDocument proves that the committed documents are those the code makes.
func TestDocument(t *testing.T) {
	a := api.New(api.Options{
		Control: control.New(control.Deps{}), Catalog: &catalog.Catalog{}, Logger: slog.New(slog.DiscardHandler),
	})
	for path, make := range map[string]func() ([]byte, error){
		documentPath: a.Document, "../../api/openapi-3.0.json": a.Document30,
	} {
		made, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, made, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		committed, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(committed) != string(made) {
			t.Errorf("%s is not current: run make generate", path)
		}
	}
}

// TestOlderGeneratorsReadTheDocument: its other form is valid by version 3.0, which has
// no lists of types and no type null, and has every operation.
func TestOlderGeneratorsReadTheDocument(t *testing.T) {
	text, err := os.ReadFile("../../api/openapi-3.0.json")
	if err != nil {
		t.Fatal(err)
	}
	older, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := older.Validate(t.Context()); err != nil || older.OpenAPI != "3.0.3" {
		t.Errorf("version %s: %v", older.OpenAPI, err)
	}
	of := older.Components.Schemas["DatabaseView"]
	if of == nil || of.Value.Properties["fork"] == nil || !of.Value.Properties["fork"].Value.Nullable || len(of.Value.Properties["fork"].Value.AllOf) != 1 {
		t.Errorf("a fork isn't shown as null or an object: %+v", of)
	}
	all := documented(t)
	operations := 0
	for _, item := range older.Paths.Map() {
		operations += len(item.Operations())
	}
	if operations != len(all) {
		t.Errorf("%d operations, want %d", operations, len(all))
	}
}
