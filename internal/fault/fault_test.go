package fault_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"steward/internal/fault"
)

func TestFaultsAreFoundInsideOtherErrors(t *testing.T) {
	t.Parallel()
	var faults fault.Faults
	if faults.Err() != nil {
		t.Error("nothing found is an error")
	}
	faults.Add("label", "Length must be %d-%d characters", 3, 32)
	faults = append(faults, fault.NewNotFound())
	err := fmt.Errorf("create: %w", faults.Err())
	if found, ok := fault.All(err); !ok || len(found) != 2 {
		t.Errorf("%v, %v", found, ok)
	}
	if !fault.IsKind(err, fault.Invalid) || !fault.IsKind(err, fault.NotFound) || fault.IsKind(err, fault.Forbidden) {
		t.Error("kinds")
	}
	if !errors.Is(err, fault.Length("label", 3, 32)) || errors.Is(err, fault.Length("label", 3, 33)) {
		t.Error("faults compare by value")
	}
	single := fmt.Errorf("view: %w", fault.NewForbidden())
	if found, ok := fault.All(single); !ok || len(found) != 1 || !fault.IsKind(single, fault.Forbidden) {
		t.Errorf("%v, %v", found, ok)
	}
	for _, err := range []error{nil, errors.New("disk full"), fmt.Errorf("x: %w", errors.New("y"))} {
		if found, ok := fault.All(err); ok || fault.IsKind(err, fault.Invalid) {
			t.Errorf("%v is taken for %v", err, found)
		}
	}
	if got := err.Error(); got != "create: label: Length must be 3-32 characters; Not found" {
		t.Error(got)
	}
}

// TestReasons are those of docs/rules.md, Errors, which clients compare.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault *fault.Fault
		kind  fault.Kind
		want  string
	}{
		{fault.NewUnauthenticated(), fault.Unauthenticated, "Invalid Token"},
		{fault.NewScopeTooSmall(), fault.ScopeTooSmall, "Your OAuth token is not authorized to use this endpoint."},
		{fault.NewForbidden(), fault.Forbidden, "Unauthorized"},
		{fault.NewNotFound(), fault.NotFound, "Not found"},
		{fault.NewTooMany(), fault.TooMany, "Too many requests"},
		{fault.Required("label"), fault.Invalid, "label: label is required"},
		{fault.NotValid("region"), fault.Invalid, "region: region is not valid"},
		{fault.Length("label", 3, 32), fault.Invalid, "label: Length must be 3-32 characters"},
		{fault.Range("page_size", 25, 500), fault.Invalid, "page_size: Must be 25-500"},
		{fault.OneOf("type", "a", "b"), fault.Invalid, "type: Must be one of a, b"},
		{fault.OneOf("type", "a"), fault.Invalid, "type: Must be a"},
		{fault.Length("notes", 0, 5000), fault.Invalid, "notes: Length must be at most 5000 characters"},
		{fault.Blank("name"), fault.Invalid, "name: Must not be blank"},
		{fault.NewPrecondition("The database is %s.", "updating"), fault.Precondition, "The database is updating."},
	} {
		if c.fault.Kind != c.kind || c.fault.Error() != c.want {
			t.Errorf("%+v, want %q", c.fault, c.want)
		}
	}
}

func TestQuoteIsBounded(t *testing.T) {
	t.Parallel()
	if got := fault.Quote([]string{"a", "b"}); got != "a, b" {
		t.Error(got)
	}
	if got := fault.Quote([]string{"", " a", "b c"}); got != `"", " a", b c` {
		t.Error(got)
	}
	if got := fault.Quote(slices.Repeat([]string{"x"}, 25)); !strings.HasSuffix(got, "x and 5 more") {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(rapid.String()).Draw(t, "items")
		if len(items) > 0 {
			items[0] = strings.Repeat(items[0], 100)
		}
		got := fault.Quote(items)
		if utf8.RuneCountInString(got) > 21*(64+5) {
			t.Fatalf("%d runes", utf8.RuneCountInString(got))
		}
	})
}
