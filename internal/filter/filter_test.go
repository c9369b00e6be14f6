package filter

import (
	"strings"
	"testing"

	"steward/internal/fault"
)

var fields = Fields{"label": Text, "id": Number, "created": Time, "public": Bool}

func TestRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"not JSON": `{`, "an array": `[]`, "two objects": `{}{}`, "unknown field": `{"secret":"x"}`, "unknown operator": `{"label":{"+like":"x"}}`,
		"wrong type": `{"label":1}`, "no number": `{"id":"x"}`, "no time": `{"created":"yesterday"}`, "contains on a number": `{"id":{"+contains":"1"}}`,
		"ordered null": `{"label":{"+gt":null}}`, "bad order": `{"+order":"up"}`, "order by unknown": `{"+order_by":"secret"}`,
		"and of no array": `{"+and":{}}`, "zero byte": `{"label":"\u0000"}`,
		"neither true nor false": `{"public":1}`, "truth in order": `{"public":{"+gt":false}}`,
		"too long": `{"label":"` + strings.Repeat("x", maxLength) + `"}`,
		"too deep": strings.Repeat(`{"+and":[`, maxDepth+2) + `{}` + strings.Repeat(`]}`, maxDepth+2),
		"too many": `{"+or":[` + strings.Repeat(`{"id":1},`, maxNodes) + `{"id":1}]}`,
	} {
		_, err := Parse(text, fields)
		found, ok := fault.All(err)
		if !ok || found[0].Field != "X-Filter" || found[0].Reason == "" {
			t.Errorf("%s: %v, want a fault on X-Filter", name, err)
		}
	}
}

func TestAccepted(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		``, ` `, `{}`, `{"label":"x"}`, `{"id":"7"}`, `{"id":{"+gte":1,"+lt":9}}`, `{"created":{"+gt":"2026-01-31T18:04:05"}}`,
		`{"created":"2026-01-31T18:04:05+02:00"}`, `{"+or":[{"label":"a"},{"+and":[]}]}`, `{"+order":"desc"}`, `{"+order_by":"id","+order":"asc"}`, `{"label":null}`, `{"public":true}`, `{"public":{"+neq":"false"}}`,
	} {
		if _, err := Parse(text, fields); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzParse: the tree of whatever is accepted holds only known fields and
// values of their kinds.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"label":"x"}`, `{"+or":[{"id":1},{"created":{"+gt":"2026-01-01"}}]}`, `{"+order_by":"id"}`, `{"label":{"+contains":"\\"}}`, `[`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text, fields)
		if err != nil {
			if found, ok := fault.All(err); !ok || found[0].Field != "X-Filter" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if parsed.OrderBy != "" && fields[parsed.OrderBy] == 0 {
			t.Fatalf("%q orders by %q", text, parsed.OrderBy)
		}
		if parsed.Where != nil {
			check(t, *parsed.Where)
		}
	})
}

func check(t *testing.T, n Node) {
	if n.Op == And || n.Op == Or {
		for _, c := range n.Children {
			check(t, c)
		}
		return
	}
	_, isInt := n.Value.(int64)
	_, isBool := n.Value.(bool)
	if fields[n.Field] == 0 || n.Value != nil && (isInt != (fields[n.Field] == Number) || isBool != (fields[n.Field] == Bool)) {
		t.Fatalf("%+v", n)
	}
}
