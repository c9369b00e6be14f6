// Package body decodes what clients send by the schema that the document shows.
package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/fault"
)

// maxDepth bounds the nesting of a body: far beyond any real one, far below
// what would cost anything.
const maxDepth = 32

// What is said of a body that can't be looked at member by member.
var (
	ErrNotJSON   = &fault.Fault{Kind: fault.Invalid, Reason: "Invalid JSON"}
	ErrNotObject = &fault.Fault{Kind: fault.Invalid, Reason: "Must be a JSON object"}
)

// Decode reads a body of type t into out and returns all problems of its shape:
// members that are missing, of the wrong type, too long, out of range. Those
// with a problem are left out of out, so that control can go on to find what
// else is wrong. Unknown members are ignored: newer clients send some.
func Decode(body []byte, schemas huma.Registry, t reflect.Type, out any) (fault.Faults, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		body = []byte("{}")
	}
	if !utf8.Valid(body) || tooDeep(body) {
		return nil, ErrNotJSON
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, ErrNotJSON
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, ErrNotJSON
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, ErrNotObject
	}
	check := checker{schemas: schemas}
	if schema := check.resolve(schemas.Schema(t, true, t.Name())); len(schema.Properties) > 0 { // else of any members
		check.object("", object, schema)
	}
	clean, err := json.Marshal(object) // without what was found at fault
	if err != nil {
		return nil, fmt.Errorf("encode checked body: %w", err)
	}
	if err := json.Unmarshal(clean, out); err != nil {
		return nil, fmt.Errorf("decode checked body: %w", err)
	}
	return check.faults, nil
}

func tooDeep(body []byte) bool {
	depth, inString, escaped := 0, false, false
	for _, b := range body {
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = b == '\\', b != '"'
		case b == '"':
			inString = true
		case b == '{' || b == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return false
}

// checker compares a value with the schema that the document shows, in the
// reason texts of docs/rules.md, Errors.
type checker struct {
	schemas huma.Registry
	faults  fault.Faults
}

// Resolve is the schema that another one may only refer to.
func Resolve(schemas huma.Registry, s *huma.Schema) *huma.Schema {
	for s != nil && s.Ref != "" {
		s = schemas.SchemaFromRef(s.Ref)
	}
	return s
}

func (c *checker) resolve(s *huma.Schema) *huma.Schema { return Resolve(c.schemas, s) }

// object checks the members and takes those at fault out.
func (c *checker) object(path string, object map[string]any, schema *huma.Schema) {
	for _, name := range schema.Required {
		if v, there := object[name]; !there || v == nil && !c.resolve(schema.Properties[name]).Nullable {
			c.faults = append(c.faults, fault.Required(join(path, name)))
			delete(object, name)
		}
	}
	for name, value := range object {
		property := c.resolve(schema.Properties[name])
		if property == nil {
			delete(object, name) // a member of a newer client
			continue
		}
		if value == nil {
			if !property.Nullable && slices.Contains(schema.Required, name) {
				continue
			}
			if !property.Nullable {
				c.faults.Add(join(path, name), "Must not be null")
				delete(object, name)
			}
			continue
		}
		if !c.value(join(path, name), value, property) {
			delete(object, name)
		}
	}
}

// entries checks what stands under names of the client's own, where the schema says what that is, and takes out those at fault.
func (c *checker) entries(path string, object map[string]any, schema *huma.Schema) {
	each, ok := schema.AdditionalProperties.(*huma.Schema)
	if each = c.resolve(each); !ok || each.Type == "" {
		return // of any kind
	}
	for name, value := range object {
		if value == nil && !each.Nullable {
			c.faults.Add(join(path, name), "Must not be null")
		}
		if value == nil && !each.Nullable || value != nil && !c.value(join(path, name), value, each) {
			delete(object, name)
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// value reports whether a value that isn't null fits.
func (c *checker) value(path string, value any, schema *huma.Schema) bool {
	before := len(c.faults)
	switch schema.Type {
	case huma.TypeString:
		c.text(path, value, schema)
	case huma.TypeInteger:
		c.integer(path, value, schema)
	case huma.TypeBoolean:
		if _, ok := value.(bool); !ok {
			c.faults.Add(path, "Must be true or false")
		}
	case huma.TypeArray:
		c.array(path, value, schema)
	case huma.TypeObject:
		if object, ok := value.(map[string]any); ok {
			if len(schema.Properties) == 0 {
				c.entries(path, object, schema)
				return true
			}
			c.object(path, object, schema)
			return true // its faulty members are gone already
		}
		c.faults.Add(path, "Must be an object")
	}
	return len(c.faults) == before
}

func (c *checker) text(path string, value any, schema *huma.Schema) {
	text, ok := value.(string)
	switch {
	case !ok:
		c.faults.Add(path, "Must be a string")
	case strings.ContainsRune(text, 0):
		c.faults.Add(path, "Must not contain a zero byte")
	case schema.MaxLength != nil && !within(utf8.RuneCountInString(text), schema):
		c.faults = append(c.faults, fault.Length(path, deref(schema.MinLength), *schema.MaxLength))
	case deref(schema.MinLength) > 0 && !schema.WriteOnly && blank(text): // but a secret may be of blanks
		c.faults = append(c.faults, fault.Blank(path))
	case len(schema.Enum) > 0 && !slices.Contains(schema.Enum, any(text)):
		var allowed []string
		for _, e := range schema.Enum {
			if e != nil { // null is no text to choose
				allowed = append(allowed, fmt.Sprint(e))
			}
		}
		c.faults = append(c.faults, fault.OneOf(path, allowed...))
	}
}

// blank reports whether a text has no character that can be seen.
func blank(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}

func within(n int, schema *huma.Schema) bool {
	return n >= deref(schema.MinLength) && n <= *schema.MaxLength
}

func deref(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}

func (c *checker) integer(path string, value any, schema *huma.Schema) {
	number, isNumber := value.(json.Number)
	n, err := number.Int64()
	if !isNumber || err != nil || n > math.MaxInt32 && schema.Format != "int64" {
		c.faults.Add(path, "Must be a whole number")
		return
	}
	if schema.Minimum != nil && schema.Maximum != nil && (float64(n) < *schema.Minimum || float64(n) > *schema.Maximum) {
		c.faults = append(c.faults, fault.Range(path, int(*schema.Minimum), int(*schema.Maximum)))
	}
}

// array reports its items under its own name: clients show one field for a list.
func (c *checker) array(path string, value any, schema *huma.Schema) {
	items, ok := value.([]any)
	if !ok {
		c.faults.Add(path, "Must be an array")
		return
	}
	if schema.MaxItems != nil && len(items) > *schema.MaxItems {
		c.faults.Add(path, "Must have at most %d items", *schema.MaxItems)
		return
	}
	item := c.resolve(schema.Items)
	for _, v := range items {
		if v == nil || !c.value(path, v, item) {
			if v == nil {
				c.faults.Add(path, "Must not contain null")
			}
			return
		}
	}
}
