package api

import (
	"encoding/json"
	"fmt"
)

// Document30 is the OpenAPI document in the form of version 3.0.3, in JSON, for
// generators of clients that don't read 3.1 yet. It says no more than Document, and
// in a few places less.
func (a *API) Document30() ([]byte, error) {
	text, err := a.huma.OpenAPI().Downgrade()
	if err != nil {
		return nil, fmt.Errorf("document in version 3.0: %w", err)
	}
	var document any
	if err := json.Unmarshal(text, &document); err != nil {
		return nil, fmt.Errorf("document in version 3.0: %w", err)
	}
	text, err = json.MarshalIndent(nullableReferences(document), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("document in version 3.0: %w", err)
	}
	return append(text, '\n'), nil
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
