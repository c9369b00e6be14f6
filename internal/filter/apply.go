package filter

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Apply is what SQL does with a filter, for lists that are in memory: the items
// that match, in the order asked for. value is an item's member of the field's
// kind: string, int64, time.Time, bool or nil.
func Apply[T any](f Filter, items []T, value func(item T, field string) any) []T {
	var found []T
	for _, item := range items {
		if f.Where == nil || f.Where.match(func(field string) any { return value(item, field) }) {
			found = append(found, item)
		}
	}
	if f.OrderBy == "" {
		return found
	}
	slices.SortStableFunc(found, func(a, b T) int { return compareNullsLast(value(a, f.OrderBy), value(b, f.OrderBy)) })
	if f.Descending {
		slices.Reverse(found)
	}
	return found
}

func (n Node) match(value func(field string) any) bool {
	switch n.Op {
	case And:
		return !slices.ContainsFunc(n.Children, func(c Node) bool { return !c.match(value) })
	case Or:
		return len(n.Children) == 0 || slices.ContainsFunc(n.Children, func(c Node) bool { return c.match(value) })
	}
	have := value(n.Field)
	if have == nil || n.Value == nil {
		return n.matchNull(have)
	}
	if n.Op == Contains {
		text, _ := have.(string)
		part, _ := n.Value.(string)
		return strings.Contains(strings.ToLower(text), strings.ToLower(part))
	}
	order := compare(have, n.Value)
	switch n.Op {
	case Equal:
		return order == 0
	case NotEqual:
		return order != 0
	case Greater:
		return order > 0
	case AtLeast:
		return order >= 0
	case Less:
		return order < 0
	case AtMost:
		return order <= 0
	}
	return false
}

// matchNull compares where one side is null: null equals null alone, and is
// neither more nor less than anything.
func (n Node) matchNull(have any) bool {
	same := have == nil && n.Value == nil
	return n.Op == Equal && same || n.Op == NotEqual && !same
}

func compareNullsLast(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return compare(a, b)
}

// compare orders two values of one kind.
func compare(a, b any) int {
	switch a := a.(type) {
	case string:
		other, _ := b.(string)
		return strings.Compare(a, other)
	case int64:
		other, _ := b.(int64)
		return cmp.Compare(a, other)
	case time.Time:
		other, _ := b.(time.Time)
		return a.Compare(other)
	case bool:
		other, _ := b.(bool)
		switch {
		case a == other:
			return 0
		case other:
			return -1
		}
		return 1
	}
	return 0
}
