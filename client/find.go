package client

import (
	"context"
	"fmt"
	"slices"
)

// find looks the one up, in a list, that a person means.
func find[T any](ctx context.Context, list func(context.Context) ([]T, error), kind, text string, names func(T) (id int64, names []string)) (T, error) {
	all, err := list(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return pick(all, kind, text, names)
}

// pick finds the one item that a person means: by its id, or else by one of its
// names, which must be one item's alone.
func pick[T any](all []T, kind, text string, names func(T) (id int64, names []string)) (T, error) {
	var found []T
	for _, one := range all {
		id, called := names(one)
		if fmt.Sprint(id) == text {
			return one, nil
		}
		if slices.Contains(called, text) {
			found = append(found, one)
		}
	}
	var none T
	switch len(found) {
	case 0:
		return none, fmt.Errorf("there is no %s %q", kind, text)
	case 1:
		return found[0], nil
	}
	return none, fmt.Errorf("%d %ss are called %q: use an id", len(found), kind, text)
}
