package api_test

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/api"
	"steward/internal/api/body"
	"steward/internal/catalog"
	"steward/internal/control"
)

// FuzzBody: whatever strangers send is decoded or refused with faults
// that have a reason; it never panics and never fails for another reason.
func FuzzBody(f *testing.F) {
	document := api.New(api.Options{Control: control.New(control.Deps{}), Catalog: &catalog.Catalog{}, Logger: slog.New(slog.DiscardHandler)}).OpenAPI()
	schemas := document.Components.Schemas
	types := map[string]reflect.Type{}
	for _, item := range document.Paths {
		for _, op := range []*huma.Operation{item.Post, item.Put} {
			if op == nil || op.RequestBody == nil {
				continue
			}
			if ref := op.RequestBody.Content["application/json"].Schema.Ref; ref != "" { // else of any members
				types[ref] = schemas.TypeFromRef(ref)
			}
		}
	}
	for _, one := range []string{"PostgresqlCreate", "DatabaseUpdate", "GrantsUpdate"} {
		if types["#/components/schemas/"+one] == nil {
			f.Fatalf("%s isn't among %d types", one, len(types))
		}
	}
	for _, seed := range []string{
		`{}`, ``, `null`, `{"label":"shop","cluster_size":1,"allow_list":["1.2.3.4"]}`, `{"label":1}`, `{"allow_list":[null,1]}`,
		`{"cluster_size":1e400}`, `{"cluster_size":1.5}`, `{"label":"\ud800"}`, strings.Repeat("[", 50), `{"updates":{"duration":"x"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		for _, typ := range types {
			faults, err := body.Decode([]byte(sent), schemas, typ, reflect.New(typ).Interface())
			if err != nil && !errors.Is(err, body.ErrNotJSON) && !errors.Is(err, body.ErrNotObject) {
				t.Fatalf("%s: %q: %v", typ, sent, err)
			}
			for _, fault := range faults {
				if fault.Field == "" || fault.Reason == "" {
					t.Fatalf("%s: %q: fault without field or reason: %+v", typ, sent, fault)
				}
			}
		}
	})
}
