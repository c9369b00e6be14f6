// Package apitest holds answers of the API against its OpenAPI document, in
// tests: whatever the server answers, the document must have promised.
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Document is an OpenAPI document that answers can be held against.
type Document struct {
	root map[string]any
	// operations by how many segments their paths have.
	operations map[int][]operation

	mu        sync.Mutex
	compiler  *jsonschema.Compiler
	schemas   map[string]*jsonschema.Schema
	responses map[string]*response
}

// response is what the document promises of an answer.
type response struct {
	pointer string
	// headers by their names as http.Header has them.
	headers map[string]header
	content map[string]any
}

// header is one that an answer may have, or must.
type header struct {
	name, pointer string
	required      bool
}

// operation is one method of one path.
type operation struct {
	id, method string
	// segments are the path's parts, with "" for a parameter.
	segments []string
	pointer  string
}

// resource is what the compiler calls the document.
const resource = "steward:///openapi.json"

// Parse reads a document in YAML.
func Parse(text []byte) (*Document, error) {
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("parse the document: %w", err)
	}
	inJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("turn the document into JSON: %w", err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(inJSON))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	root, ok := parsed.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is no object")
	}
	d := &Document{
		root: root, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{},
		responses: map[string]*response{}, operations: map[int][]operation{},
	}
	closeObjects(member(root, "components", "schemas"))
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := d.compiler.AddResource(resource, root); err != nil {
		return nil, fmt.Errorf("compile the document: %w", err)
	}
	d.collect()
	if len(d.operations) == 0 {
		return nil, fmt.Errorf("the document has no operations")
	}
	return d, nil
}

// closeObjects makes every schema refuse members it doesn't name. Clients must
// bear new members; a server must not have any that its document is silent about.
func closeObjects(node any) {
	switch node := node.(type) {
	case map[string]any:
		_, isMap := node["additionalProperties"].(map[string]any)
		if node["type"] == "object" && !isMap {
			node["additionalProperties"] = false
		}
		for _, child := range node {
			closeObjects(child)
		}
	case []any:
		for _, child := range node {
			closeObjects(child)
		}
	}
}

func (d *Document) collect() {
	paths, _ := d.root["paths"].(map[string]any)
	for path, item := range paths {
		methods, _ := item.(map[string]any)
		for method := range methods {
			op := operation{
				method: strings.ToUpper(method), segments: strings.Split(path, "/"),
				pointer: "/paths/" + escape(path) + "/" + method,
			}
			op.id, _ = member(item, method, "operationId").(string)
			for i, s := range op.segments {
				if strings.HasPrefix(s, "{") {
					op.segments[i] = ""
				}
			}
			d.operations[len(op.segments)] = append(d.operations[len(op.segments)], op)
		}
	}
}

var (
	escaper   = strings.NewReplacer("~", "~0", "/", "~1")
	unescaper = strings.NewReplacer("~1", "/", "~0", "~")
)

// escape makes a token of a JSON pointer.
func escape(name string) string { return escaper.Replace(name) }

// member walks down objects by their keys; nil when there is nothing.
func member(node any, keys ...string) any {
	for _, key := range keys {
		object, ok := node.(map[string]any)
		if !ok {
			return nil
		}
		node = object[key]
	}
	return node
}

// follow resolves a reference to something else in the document.
func (d *Document) follow(node any, pointer string) (map[string]any, string) {
	object, _ := node.(map[string]any)
	for range 8 {
		ref, ok := object["$ref"].(string)
		if !ok {
			break
		}
		pointer = strings.TrimPrefix(ref, "#")
		keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		for i, key := range keys {
			keys[i] = unescaper.Replace(key)
		}
		object, _ = member(d.root, keys...).(map[string]any)
	}
	return object, pointer
}

// promised is the response at a pointer, or where that leads to; nil when there is none. It is read once.
func (d *Document) promised(pointer string) *response {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, known := d.responses[pointer]; known {
		return r
	}
	var r *response
	if node, at := d.follow(map[string]any{"$ref": "#" + pointer}, pointer); node != nil {
		r = &response{pointer: at, headers: map[string]header{}}
		r.content, _ = node["content"].(map[string]any)
		headers, _ := node["headers"].(map[string]any)
		for name, one := range headers {
			node, at := d.follow(one, at+"/headers/"+escape(name))
			r.headers[http.CanonicalHeaderKey(name)] = header{name: name, pointer: at, required: node["required"] == true}
		}
	}
	d.responses[pointer] = r
	return r
}

// schema compiles the schema at a pointer, once.
func (d *Document) schema(pointer string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.schemas[pointer]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(resource + "#" + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", pointer, err)
	}
	d.schemas[pointer] = s
	return s, nil
}

// find is the path's operation for the method. known reports whether the path
// is in the document at all. A path's own name wins over a parameter, whatever
// methods it has.
func (d *Document) find(method, path string) (best operation, found, known bool) {
	segments := strings.Split(path, "/")
	most := 0
	for _, op := range d.operations[len(segments)] {
		literal, fits := fit(op.segments, segments)
		if !fits || literal < most {
			continue
		}
		if literal > most {
			best, found, most = operation{}, false, literal
		}
		known = true
		if op.method == method {
			best, found = op, true
		}
	}
	return best, found, known
}

// fit reports whether a path matches a pattern of as many segments, and in how many names.
func fit(pattern, path []string) (literal int, fits bool) {
	for i, want := range pattern {
		switch {
		case want == path[i] && want != "" || i == 0:
			literal++
		case want != "" || path[i] == "":
			return 0, false
		}
	}
	return literal, true
}
