package account

import (
	"slices"
	"strings"

	"steward/internal/fault"
)

// Area is a part of the API that a scope speaks of.
type Area string

// The areas of docs/rules.md, Access.
const (
	AreaDatabases Area = "databases"
	AreaAccount   Area = "account"
	AreaEvents    Area = "events"
	// AreaOperator is what operators of the installation may do; of no use to others.
	AreaOperator Area = "operator"
)

// Access is how far a scope reaches into its area.
type Access string

// ReadWriteAccess includes ReadOnlyAccess.
const (
	ReadOnlyAccess  Access = "read_only"
	ReadWriteAccess Access = "read_write"
)

// Scope is one area with one access, written "databases:read_only".
type Scope struct {
	Area   Area
	Access Access
}

func (s Scope) String() string { return string(s.Area) + ":" + string(s.Access) }

// Covers reports whether holding s is enough where want is asked.
func (s Scope) Covers(want Scope) bool {
	return s.Area == want.Area && (s.Access == ReadWriteAccess || s.Access == want.Access)
}

// Scopes is a set of scopes, or everything.
type Scopes struct {
	All  bool
	List []Scope
}

// FullScopes is "*".
func FullScopes() Scopes { return Scopes{All: true} }

// ParseScopes reads "*", or scopes separated by spaces or commas. Order and
// repetition don't matter; the result is sorted.
func ParseScopes(text string) (Scopes, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' })
	if len(fields) == 0 {
		return Scopes{}, fault.Required("scopes")
	}
	var scopes Scopes
	var bad []string
	for _, field := range fields {
		if field == "*" {
			scopes.All = true
			continue
		}
		area, access, _ := strings.Cut(field, ":")
		s := Scope{Area(area), Access(access)}
		if !s.known() {
			bad = append(bad, field)
			continue
		}
		scopes.List = append(scopes.List, s)
	}
	if len(bad) > 0 {
		return Scopes{}, fault.NewInvalid("scopes", "Unknown scope(s): %s", fault.Quote(bad))
	}
	if scopes.All {
		return FullScopes(), nil
	}
	slices.SortFunc(scopes.List, func(a, b Scope) int { return strings.Compare(a.String(), b.String()) })
	scopes.List = slices.Compact(scopes.List)
	return scopes, nil
}

func (s Scope) known() bool {
	return slices.Contains([]Area{AreaDatabases, AreaAccount, AreaEvents, AreaOperator}, s.Area) &&
		(s.Access == ReadOnlyAccess || s.Access == ReadWriteAccess)
}

// Allow reports whether the set covers want.
func (ss Scopes) Allow(want Scope) bool {
	return ss.All || slices.ContainsFunc(ss.List, func(s Scope) bool { return s.Covers(want) })
}

// Include reports whether the set covers all of other: a token can't make a
// stronger one than itself.
func (ss Scopes) Include(other Scopes) bool {
	if ss.All {
		return true
	}
	if other.All {
		return false
	}
	for _, want := range other.List {
		if !ss.Allow(want) {
			return false
		}
	}
	return true
}

// String is "*" or the scopes separated by spaces, as stored and as sent in
// the X-OAuth-Scopes header.
func (ss Scopes) String() string {
	if ss.All {
		return "*"
	}
	texts := make([]string, len(ss.List))
	for i, s := range ss.List {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}
