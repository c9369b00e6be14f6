package simulator

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"steward/internal/platform/kubernetes/cnpg"
	"steward/internal/platform/kubernetes/mariadb"
)

// TestDefinitionsHaveWhatTypesHave: what steward can write, the API server of tests takes, and nothing else.
func TestDefinitionsHaveWhatTypesHave(t *testing.T) {
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]reflect.Type{
		"clusters.postgresql.cnpg.io":      reflect.TypeFor[cnpg.Cluster](),
		"imagecatalogs.postgresql.cnpg.io": reflect.TypeFor[cnpg.ImageCatalog](),
		"backups.postgresql.cnpg.io":       reflect.TypeFor[cnpg.Backup](),
		"objectstores.barmancloud.cnpg.io": reflect.TypeFor[cnpg.ObjectStore](),
		"mariadbs.k8s.mariadb.com":         reflect.TypeFor[mariadb.MariaDB](),
		"physicalbackups.k8s.mariadb.com":  reflect.TypeFor[mariadb.PhysicalBackup](),
	}
	if len(all) != len(kinds) {
		t.Errorf("%d definitions of %d kinds", len(all), len(kinds))
	}
	for _, d := range all {
		kind, known := kinds[d.GetName()]
		if !known {
			t.Errorf("%s: no type is compared with it", d.GetName())
			continue
		}
		for _, found := range Fields(d, kind) {
			t.Error(found)
		}
		if found := Compare(d, d); len(found) > 0 {
			t.Errorf("differs from itself: %v", found)
		}
	}
}

// TestDefinitionsAreTheOperators holds the definitions of tests against what the operator's own, of the versions that the file names, say of the same fields:
// scripts/compare-definitions.go wrote that down.
func TestDefinitionsAreTheOperators(t *testing.T) {
	text, err := os.ReadFile("testdata/definitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			said[strings.TrimSpace(line)] = true
		}
	}
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		for _, fact := range Facts(d, d) {
			if !said[fact] {
				t.Errorf("the operator's definition doesn't say %q", fact)
			}
			delete(said, fact)
		}
	}
	for fact := range said {
		t.Errorf("the operator's definition says %q, and ours doesn't", fact)
	}
}

// TestCompareSeesDifferences: a field that is renamed, of another type or with another default.
func TestCompareSeesDifferences(t *testing.T) {
	definition := func(properties map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"versions": []any{map[string]any{
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": properties}},
		}}}}}
	}
	field := func(kind string, more ...any) map[string]any {
		f := map[string]any{"type": kind}
		if len(more) > 0 {
			f["default"] = more[0]
		}
		return f
	}
	ours := definition(map[string]any{"gone": field("string"), "typed": field("string"), "default": field("integer", int64(1)), "same": field("string")})
	real := definition(map[string]any{"typed": field("integer"), "default": field("integer", int64(2)), "same": field("string"), "more": field("string")})
	found := strings.Join(Compare(ours, real), "\n")
	for _, want := range []string{".gone: isn't there", ".typed: type is integer", ".default: default is 2"} {
		if !strings.Contains(found, want) {
			t.Errorf("%s isn't told: %s", want, found)
		}
	}
	if strings.Contains(found, "same") || strings.Contains(found, "more") {
		t.Errorf("told without a reason: %s", found)
	}
}
