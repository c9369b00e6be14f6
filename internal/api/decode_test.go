package api

import (
	"reflect"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// FuzzCreateBody: whatever strangers send is decoded or refused with faults
// that have a reason; it never panics and never fails for another reason.
func FuzzCreateBody(f *testing.F) {
	for _, seed := range []string{
		`{}`, ``, `null`, `{"label":"shop","cluster_size":1,"allow_list":["1.2.3.4"]}`, `{"label":1}`, `{"allow_list":[null,1]}`,
		`{"cluster_size":1e400}`, `{"cluster_size":1.5}`, `{"label":"\ud800"}`, strings.Repeat("[", 50), `{"updates":{"duration":"x"}}`,
	} {
		f.Add(seed)
	}
	registry := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	types := []reflect.Type{reflect.TypeFor[postgresqlCreate](), reflect.TypeFor[databaseUpdate](), reflect.TypeFor[grantsUpdate]()}
	for _, t := range types {
		registry.Schema(t, true, t.Name())
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, typ := range types {
			faults, err := decodeBody([]byte(body), registry, typ, reflect.New(typ).Interface())
			if err != nil && err.Error() != errNotJSON.Reason && err.Error() != "Must be a JSON object" {
				t.Fatalf("%q: %v", body, err)
			}
			for _, fault := range faults {
				if fault.Field == "" || fault.Reason == "" {
					t.Fatalf("%q: fault without field or reason: %+v", body, fault)
				}
			}
		}
	})
}
