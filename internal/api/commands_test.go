package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// node is an object of the document in the form of 3.0.
type node = map[string]any

func olderDocument(t *testing.T) node {
	t.Helper()
	text, err := os.ReadFile("../../api/openapi-3.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var document node
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// resolved follows a reference.
func resolved(document, schema node) node {
	name, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	name = strings.TrimPrefix(name, "#/components/schemas/")
	return document["components"].(node)["schemas"].(node)[name].(node)
}

// shown is the schema of which an operation's answer has one or many.
func shown(document, operation node) (schema node, many bool) {
	content, ok := operation["responses"].(node)["200"].(node)["content"].(node)["application/json"].(node)
	if !ok {
		return node{}, false // a stream
	}
	if instead, ok := content["x-linode-cli-use-schema"].(node); ok {
		return instead, true
	}
	schema = resolved(document, content["schema"].(node))
	properties, _ := schema["properties"].(node)
	if data, ok := properties["data"].(node); ok && properties["pages"] != nil {
		return resolved(document, data["items"].(node)), true
	}
	if items, ok := schema["items"].(node); ok {
		return resolved(document, items), true
	}
	return schema, false
}

// columns are the places of a schema's members in a table.
func columns(document, schema node) (places []int) {
	properties, _ := schema["properties"].(node)
	for _, p := range properties {
		property := p.(node)
		if place, ok := property["x-linode-cli-display"].(float64); ok {
			places = append(places, int(place))
		}
		if inner := resolved(document, property); inner["properties"] != nil {
			places = append(places, columns(document, inner)...)
		}
	}
	return places
}

// TestGeneratedCommands: the vendor's generator of its command-line client finds in the
// document in the form of 3.0 all that it makes commands of. It wants the API's version
// in the server's address, a command's name and path parameters on the path, an action
// on each operation, and columns on what is answered.
func TestGeneratedCommands(t *testing.T) {
	document := olderDocument(t)
	if server := document["servers"].([]any)[0].(node)["url"]; server != "/v4" {
		t.Errorf("server %v", server)
	}
	taken := map[string]string{}
	for path, item := range document["paths"].(node) {
		var declared []string
		parameters, _ := item.(node)["parameters"].([]any)
		for _, p := range parameters {
			declared = append(declared, "{"+p.(node)["name"].(string)+"}")
		}
		for part := range strings.SplitSeq(path, "/") {
			if strings.HasPrefix(part, "{") && !slices.Contains(declared, part) {
				t.Errorf("%s doesn't declare %s for all its operations", path, part)
			}
		}
		for method, o := range item.(node) {
			operation, ok := o.(node)
			if !ok || operation["operationId"] == nil || operation["x-linode-cli-skip"] == true {
				continue
			}
			name := method + " " + path
			command := fmt.Sprint(item.(node)["x-linode-cli-command"], " ", operation["x-linode-cli-action"])
			if strings.Contains(command, "<nil>") {
				t.Errorf("%s: no command or no action: %s", name, command)
			}
			if other := taken[command]; other != "" {
				t.Errorf("%s is both %s and %s", command, name, other)
			}
			taken[command] = name
			wellShown(t, document, operation, name)
		}
	}
	for _, command := range []string{"databases mysql-list", "databases postgresql-create", "managed services-list", "managed stats-list"} {
		if taken[command] == "" {
			t.Errorf("there is no %s", command)
		}
	}
}

// wellShown: what an operation answers has columns, in places without a gap: there is one
// where a column is named that the answer doesn't have.
func wellShown(t *testing.T, document, operation node, name string) {
	t.Helper()
	schema, _ := shown(document, operation)
	if schema["properties"] == nil {
		return // {}
	}
	places := columns(document, schema)
	slices.Sort(places)
	if len(places) == 0 {
		t.Errorf("%s: nothing of its answer would be shown", name)
	}
	outer := slices.DeleteFunc(places, func(p int) bool { return p > 100 })
	for i, place := range outer {
		if place != i+1 {
			t.Errorf("%s: columns %v", name, outer)
			break
		}
	}
}

// TestFilterableMembersAreThoseOfLists: every list obeys a filter by the members that the
// document names, and by no other text, number or truth value of its items.
func TestFilterableMembersAreThoseOfLists(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	document := olderDocument(t)
	tried := 0
	for path, item := range document["paths"].(node) {
		operation, _ := item.(node)["get"].(node)
		if operation == nil || strings.Contains(path, "{") {
			continue
		}
		schema, many := shown(document, operation)
		if !many || operation["operationId"] == "viewStats" {
			continue
		}
		for _, member := range slices.Sorted(maps.Keys(schema["properties"].(node))) {
			property := schema["properties"].(node)[member].(node)
			value := map[any]string{"string": `"2026-01-31T18:04:05"`, "integer": "1", "boolean": "true"}[property["type"]]
			if value == "" {
				continue
			}
			want := http.StatusBadRequest
			if property["x-linode-filterable"] == true {
				want = http.StatusOK
			}
			r := b.send("GET", "/v4"+path, b.full, "", "X-Filter", fmt.Sprintf(`{%q:%s}`, member, value))
			if r.StatusCode != want {
				t.Errorf("%s by %s: %d, want %d: %s", path, member, r.StatusCode, want, r.body)
			}
			tried++
		}
	}
	if tried < 100 {
		t.Errorf("only %d", tried)
	}
}
