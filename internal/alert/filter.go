package alert

import (
	"slices"
	"strings"
)

// The dimensions that nodes are told apart by.
const (
	ByEntity = "entity_id"
	ByNode   = "node_id"
	ByRole   = "node_type"
)

// Filter picks nodes by a dimension.
type Filter struct {
	Dimension string `json:"dimension_label"`
	Operator  string `json:"operator"`
	Value     string `json:"value"`
}

// Labels are the dimensions of a node.
type Labels map[string]string

// matches reports whether a node passes.
func (f Filter) matches(l Labels) bool {
	v := l[f.Dimension]
	switch f.Operator {
	case "eq":
		return v == f.Value
	case "neq":
		return v != f.Value
	case "startswith":
		return strings.HasPrefix(v, f.Value)
	case "endswith":
		return strings.HasSuffix(v, f.Value)
	}
	return slices.Contains(strings.Split(f.Value, ","), v)
}

// passes reports whether a node passes all of the criterion's filters.
func (c Criterion) passes(l Labels) bool {
	return !slices.ContainsFunc(c.Filters, func(f Filter) bool { return !f.matches(l) })
}
