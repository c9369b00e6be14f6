package simulator

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Compare says where ours, of the definitions of one kind, isn't as the operator's own has it: fields that aren't there or
// are of another type, and other defaults. What only the operator's has is left out.
func Compare(ours, real *unstructured.Unstructured) []string {
	version := func(d *unstructured.Unstructured) any {
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		if err != nil || len(versions) == 0 {
			return nil
		}
		return versions[0]
	}
	was, is := schemaOf(version(ours)), schemaOf(version(real))
	if was == nil || is == nil {
		return []string{"there is no schema"}
	}
	return compare(ours.GetName(), was, is)
}

func schemaOf(version any) map[string]any {
	v, ok := version.(map[string]any)
	if !ok {
		return nil
	}
	schema, _, err := unstructured.NestedMap(v, "schema", "openAPIV3Schema")
	if err != nil {
		return nil
	}
	return schema
}

func compare(path string, ours, real map[string]any) []string {
	var found []string
	for _, what := range []string{"type", "default"} {
		if ours[what] != nil && fmt.Sprint(ours[what]) != fmt.Sprint(real[what]) {
			found = append(found, fmt.Sprintf("%s: %s is %v, and not %v", path, what, real[what], ours[what]))
		}
	}
	theirs, _ := real["properties"].(map[string]any)
	mine, _ := ours["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		field, ok := theirs[name].(map[string]any)
		if !ok {
			found = append(found, path+"."+name+": isn't there")
			continue
		}
		found = append(found, compare(path+"."+name, mine[name].(map[string]any), field)...)
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		mine, has := ours[inner].(map[string]any)
		if theirs, ok := real[inner].(map[string]any); has && ok {
			found = append(found, compare(path+"[]", mine, theirs)...)
		} else if has {
			found = append(found, path+": isn't one of several")
		}
	}
	return found
}

// Facts are of each field that ours has what the operator's own definition says: its path, type, default and choices.
func Facts(ours, real *unstructured.Unstructured) []string {
	var lines []string
	version := func(d *unstructured.Unstructured) map[string]any {
		versions, _, err := unstructured.NestedSlice(d.Object, "spec", "versions")
		if err != nil || len(versions) == 0 {
			return nil
		}
		return schemaOf(versions[0])
	}
	facts(ours.GetName(), version(ours), version(real), &lines)
	return lines
}

func facts(path string, ours, real map[string]any, lines *[]string) {
	var line strings.Builder
	line.WriteString(path + " " + cmp.Or(fmt.Sprint(real["type"]), "?"))
	for _, what := range []string{"default", "enum"} {
		if said := real[what]; said != nil {
			fmt.Fprintf(&line, " %s=%v", what, said)
		}
	}
	*lines = append(*lines, line.String())
	inner := func(of map[string]any, name string) map[string]any {
		found, _ := of[name].(map[string]any)
		return found
	}
	mine := inner(ours, "properties")
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		facts(path+"."+name, inner(mine, name), inner(inner(real, "properties"), name), lines)
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if ours[name] != nil {
			facts(path+"[]", inner(ours, name), inner(real, name), lines)
		}
	}
}

// Fields says where a type isn't as the definition of its kind has it: fields that only one of them has.
func Fields(definition *unstructured.Unstructured, kind reflect.Type) []string {
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil || len(versions) == 0 {
		return []string{"there is no schema"}
	}
	return fields(definition.GetName(), schemaOf(versions[0]), kind)
}

func fields(path string, schema map[string]any, kind reflect.Type) []string {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		if items, ok := schema["items"].(map[string]any); ok {
			schema = items
		}
		kind = kind.Elem()
	}
	properties, _ := schema["properties"].(map[string]any)
	if kind.Kind() != reflect.Struct || len(properties) == 0 || strings.HasPrefix(kind.PkgPath(), "k8s.io/") {
		return nil
	}
	left := maps.Clone(properties)
	var found []string
	for field := range kind.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // apiVersion and kind
			delete(left, "apiVersion")
			delete(left, "kind")
			continue
		}
		inner, ok := properties[name].(map[string]any)
		if !ok {
			found = append(found, path+"."+name+": only the type has it")
			continue
		}
		delete(left, name)
		found = append(found, fields(path+"."+name, inner, field.Type)...)
	}
	for name := range left {
		found = append(found, path+"."+name+": only the definition has it")
	}
	return found
}
