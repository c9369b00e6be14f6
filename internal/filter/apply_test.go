package filter

import (
	"slices"
	"testing"
	"time"
)

type thing struct {
	id     int64
	label  string
	public bool
	made   *time.Time
}

func attribute(t thing, field string) any {
	switch field {
	case "id":
		return t.id
	case "label":
		return t.label
	case "public":
		return t.public
	}
	if t.made == nil {
		return nil
	}
	return *t.made
}

func TestApply(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Hour)
	things := []thing{{1, "b", true, nil}, {2, "a", false, &later}, {3, "Ab", true, &noon}, {4, "b", false, nil}}
	for text, want := range map[string][]int64{
		``:                          {1, 2, 3, 4},
		`{"public":true}`:           {1, 3},
		`{"public":{"+neq":true}}`:  {2, 4},
		`{"created":null}`:          {1, 4},
		`{"created":{"+neq":null}}`: {2, 3},
		`{"created":{"+neq":"2026-01-31T12:00:00"}}`: {1, 2, 4},
		`{"created":{"+gt":"2026-01-31T12:00:00"}}`:  {2},
		`{"label":{"+contains":"A"}}`:                {2, 3},
		`{"+or":[{"id":{"+gte":4}},{"id":1}]}`:       {1, 4},
		`{"+or":[]}`:                                 {1, 2, 3, 4},
		`{"+order_by":"label"}`:                      {3, 2, 1, 4},
		`{"+order_by":"label","+order":"desc"}`:      {4, 1, 2, 3},
		`{"+order_by":"created"}`:                    {3, 2, 1, 4},
		`{"+order_by":"public"}`:                     {2, 4, 1, 3},
		`{"id":{"+gt":1,"+lte":3}}`:                  {2, 3},
	} {
		f, err := Parse(text, fields)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var got []int64
		for _, found := range Apply(f, things, attribute) {
			got = append(got, found.id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
