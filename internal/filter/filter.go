// Package filter reads the X-Filter header: one JSON object that says which
// items of a list are wanted and in which order. It is a parser in the path of
// strangers' input, so it is bounded, fuzzed, and yields a tree in which only
// known fields and values of their kinds occur.
package filter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"steward/internal/fault"
)

// Kind is what values a field has.
type Kind int

// The kinds. A Time is compared as a moment, a Text letter by letter; a Bool has
// no order.
const (
	Text Kind = iota + 1
	Number
	Time
	Bool
)

// Fields are the names that may be filtered and ordered by.
type Fields map[string]Kind

// Op is a comparison or a connective.
type Op string

// The operators of docs/rules.md, Lists.
const (
	And      Op = "+and"
	Or       Op = "+or"
	Equal    Op = "="
	NotEqual Op = "+neq"
	Greater  Op = "+gt"
	AtLeast  Op = "+gte"
	Less     Op = "+lt"
	AtMost   Op = "+lte"
	Contains Op = "+contains"
)

// Node is a connective with children, or a comparison of a field with a value
// (string, int64, time.Time or bool by the field's kind; nil for null).
type Node struct {
	Op       Op
	Children []Node
	Field    string
	Value    any
}

// Filter is a parsed X-Filter. The zero value matches everything in the list's own order.
type Filter struct {
	// Where is nil when everything matches.
	Where *Node
	// OrderBy is "" for the list's own order.
	OrderBy    string
	Descending bool
}

// Bounds on what is accepted: far beyond any real filter.
const (
	maxLength = 8 << 10
	maxDepth  = 10
	maxNodes  = 200
)

const header = "X-Filter"

// Parse reads an X-Filter header; an empty one matches everything. Errors are
// faults on the field X-Filter.
func Parse(text string, fields Fields) (Filter, error) {
	if strings.TrimSpace(text) == "" {
		return Filter{}, nil
	}
	if len(text) > maxLength {
		return Filter{}, fault.NewInvalid(header, "Must be at most %d bytes", maxLength)
	}
	p := parser{fields: fields}
	top, err := p.object([]byte(text))
	if err != nil {
		return Filter{}, err
	}
	var f Filter
	if f, top, err = p.order(f, top); err != nil {
		return Filter{}, err
	}
	node, err := p.conjunction(top, 0)
	if err != nil {
		return Filter{}, err
	}
	if len(node.Children) > 0 {
		f.Where = &node
	}
	return f, nil
}

type parser struct {
	fields Fields
	nodes  int
}

// member is one key of an object, in the order written.
type member struct {
	key   string
	value json.RawMessage
}

// object reads one JSON object and nothing after it.
func (p *parser) object(text []byte) ([]member, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	bad := fault.NewInvalid(header, "Must be one JSON object")
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		return nil, bad
	}
	var members []member
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, bad
		}
		var m member
		var ok bool
		if m.key, ok = key.(string); !ok {
			return nil, bad
		}
		if err := decoder.Decode(&m.value); err != nil {
			return nil, bad
		}
		members = append(members, m)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, bad
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, bad
	}
	return members, nil
}

// order takes +order_by and +order out of the top object. +order alone is
// tolerated, since existing clients send it.
func (p *parser) order(f Filter, members []member) (Filter, []member, error) {
	rest := members[:0:0]
	for _, m := range members {
		var value string
		switch m.key {
		case "+order_by":
			if json.Unmarshal(m.value, &value) != nil || p.fields[value] == 0 {
				return f, nil, fault.NewInvalid(header, "+order_by must be one of %s", p.names())
			}
			f.OrderBy = value
		case "+order":
			if json.Unmarshal(m.value, &value) != nil || value != "asc" && value != "desc" {
				return f, nil, fault.NewInvalid(header, "+order must be asc or desc")
			}
			f.Descending = value == "desc"
		default:
			rest = append(rest, m)
		}
	}
	return f, rest, nil
}

func (p *parser) conjunction(members []member, depth int) (Node, error) {
	node := Node{Op: And}
	if depth > maxDepth {
		return node, fault.NewInvalid(header, "Must be nested at most %d deep", maxDepth)
	}
	for _, m := range members {
		child, err := p.member(m, depth)
		if err != nil {
			return node, err
		}
		node.Children = append(node.Children, child)
	}
	return node, nil
}

func (p *parser) member(m member, depth int) (Node, error) {
	if p.nodes++; p.nodes > maxNodes {
		return Node{}, fault.NewInvalid(header, "Must have at most %d conditions", maxNodes)
	}
	switch {
	case m.key == string(And), m.key == string(Or):
		return p.connective(Op(m.key), m.value, depth)
	case p.fields[m.key] == 0:
		return Node{}, fault.NewInvalid(header, "Can't filter by %q; fields are %s", m.key, p.names())
	case bytes.HasPrefix(bytes.TrimSpace(m.value), []byte("{")):
		return p.comparisons(m.key, m.value)
	}
	return p.comparison(m.key, Equal, m.value)
}

func (p *parser) connective(op Op, value json.RawMessage, depth int) (Node, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal(value, &parts); err != nil || parts == nil {
		return Node{}, fault.NewInvalid(header, "%s must be an array of objects", op)
	}
	node := Node{Op: op}
	for _, part := range parts {
		members, err := p.object(part)
		if err != nil {
			return node, err
		}
		child, err := p.conjunction(members, depth+1)
		if err != nil {
			return node, err
		}
		node.Children = append(node.Children, child)
	}
	return node, nil
}

// comparisons reads {"+gte": …, "+lt": …}: all of them must hold.
func (p *parser) comparisons(field string, value json.RawMessage) (Node, error) {
	members, err := p.object(value)
	if err != nil {
		return Node{}, err
	}
	node := Node{Op: And}
	for _, m := range members {
		op := Op(m.key)
		if !slices.Contains([]Op{NotEqual, Greater, AtLeast, Less, AtMost, Contains}, op) {
			return node, fault.NewInvalid(header, "%q is not an operator", m.key)
		}
		if p.nodes++; p.nodes > maxNodes {
			return node, fault.NewInvalid(header, "Must have at most %d conditions", maxNodes)
		}
		child, err := p.comparison(field, op, m.value)
		if err != nil {
			return node, err
		}
		node.Children = append(node.Children, child)
	}
	return node, nil
}

func (p *parser) comparison(field string, op Op, raw json.RawMessage) (Node, error) {
	kind := p.fields[field]
	if op == Contains && kind != Text {
		return Node{}, fault.NewInvalid(header, "+contains needs a text field; %s isn't one", field)
	}
	value, err := decode(kind, raw)
	if err != nil {
		return Node{}, fault.NewInvalid(header, "%s: %s", field, err.Error())
	}
	if value == nil && op != Equal && op != NotEqual {
		return Node{}, fault.NewInvalid(header, "%s: null can't be ordered", field)
	}
	if kind == Bool && op != Equal && op != NotEqual {
		return Node{}, fault.NewInvalid(header, "%s: true and false can't be ordered", field)
	}
	return Node{Op: op, Field: field, Value: value}, nil
}

// decode reads a value of the kind. Numbers may come as strings, as older clients send them.
func decode(kind Kind, raw json.RawMessage) (any, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	var text string
	isText := json.Unmarshal(raw, &text) == nil
	if strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("must not contain a zero byte")
	}
	switch kind {
	case Number:
		if isText {
			raw = json.RawMessage(text)
		}
		var n int64
		if err := json.Unmarshal(raw, &n); err != nil {
			return nil, fmt.Errorf("must be a whole number")
		}
		return n, nil
	case Time:
		if t, ok := ParseTime(text); isText && ok {
			return t, nil
		}
		return nil, fmt.Errorf("must be a time such as 2026-01-31T18:04:05")
	case Bool:
		if isText {
			raw = json.RawMessage(text)
		}
		var b bool
		if err := json.Unmarshal(raw, &b); err != nil || bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
			return nil, fmt.Errorf("must be true or false")
		}
		return b, nil
	default:
		if !isText {
			return nil, fmt.Errorf("must be a string")
		}
		return text, nil
	}
}

// timeLayout is how the API writes times: UTC, no zone, no fraction.
const timeLayout = "2006-01-02T15:04:05"

// FormatTime writes a time as answers and messages have it.
func FormatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// ParseTime reads a time as requests and filters may write it: without a zone
// (UTC), with Z, or with an offset.
func ParseTime(text string) (time.Time, bool) {
	for _, layout := range []string{timeLayout, time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), t.Year() > 0
		}
	}
	return time.Time{}, false
}

func (p *parser) names() string {
	names := make([]string, 0, len(p.fields))
	for name := range p.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
