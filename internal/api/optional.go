package api

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
)

// optional is a member of a body that may be absent, null or a value, where
// null means something else than absence: take away what is there. Its tag
// needs omitzero, as that of every member that may be absent.
type optional[T any] struct {
	sent bool
	// value is nil for null.
	value *T
}

// UnmarshalJSON is called for members that are there only, null included.
func (o *optional[T]) UnmarshalJSON(text []byte) error {
	o.sent = true
	return json.Unmarshal(text, &o.value)
}

// Schema is the value's, or null.
func (optional[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), false, "")
	s.Nullable = true
	return &s
}

// null reports whether the member is there and null.
func (o optional[T]) null() bool { return o.sent && o.value == nil }

// orZero is nil for an absent member, and the zero value for null.
func (o optional[T]) orZero() *T {
	if o.null() {
		return new(T)
	}
	return o.value
}
