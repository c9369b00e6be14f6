package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Document30 is the OpenAPI document in the form of version 3.0.3, in JSON, for
// generators of clients that don't read 3.1 yet. Of the API it says no more than
// Document, and in a few places less; besides, it has what generators of command-line
// clients need. It is made once, as Document is.
func (a *API) Document30() ([]byte, error) { return a.document30() }

func (a *API) makeDocument30() ([]byte, error) {
	text, err := a.OpenAPI().Downgrade()
	if err != nil {
		return nil, fmt.Errorf("document in version 3.0: %w", err)
	}
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("document in version 3.0: %w", err)
	}
	nullableReferences(document)
	belowServer(document)
	addCommands(document)
	text, err = json.MarshalIndent(document, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("document in version 3.0: %w", err)
	}
	return append(text, '\n'), nil
}

// version is the part of every operation's path that generators look for in the
// server's address.
const version = "/v4"

// belowServer moves what all paths begin with to the server's address, which is
// relative to where the document is read, and what the operations of a path say of
// its parameters to the path: generators look for both there.
func belowServer(document map[string]any) {
	document["servers"] = []any{map[string]any{"url": version}}
	paths := map[string]any{}
	for path, item := range object(document, "paths") {
		paths[strings.TrimPrefix(path, version)] = item
		shareParameters(item.(map[string]any))
	}
	document["paths"] = paths
}

func shareParameters(item map[string]any) {
	for _, operation := range item {
		op, ok := operation.(map[string]any)
		if !ok {
			continue
		}
		all, _ := op["parameters"].([]any)
		var own, shared []any
		for _, p := range all {
			if parameter, _ := p.(map[string]any); parameter["in"] == "path" {
				shared = append(shared, p)
			} else {
				own = append(own, p)
			}
		}
		if len(shared) > 0 {
			op["parameters"], item["parameters"] = own, shared
		}
		if len(own) == 0 {
			delete(op, "parameters")
		}
	}
}

// nullableReferences says of references that may be null what Huma leaves as it is in
// 3.1: 3.0 has no type null, and nothing beside a reference.
func nullableReferences(node any) any {
	switch n := node.(type) {
	case []any:
		for i := range n {
			n[i] = nullableReferences(n[i])
		}
	case map[string]any:
		for name, value := range n {
			n[name] = nullableReferences(value)
		}
		if choices, _ := n["anyOf"].([]any); len(choices) == 2 && isNull(choices[1]) {
			delete(n, "anyOf")
			n["allOf"], n["nullable"] = choices[:1], true
		}
	}
	return node
}

func isNull(schema any) bool {
	s, _ := schema.(map[string]any)
	return s["type"] == "null"
}
