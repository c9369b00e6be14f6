package cli

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestNothingIsAList: a list without anything in it is one in JSON, too.
func TestNothingIsAList(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		printed any
		want    string
	}{
		{[]string(nil), "[]\n"},
		{[]string{}, "[]\n"},
		{[]string{"a"}, "[\n  \"a\"\n]\n"},
		{json.RawMessage(`{"plan": 1}`), "{\n  \"plan\": 1\n}\n"},
		{map[string]int{}, "{}\n"},
	} {
		var out bytes.Buffer
		if err := printJSON(&out, v.printed); err != nil || out.String() != v.want {
			t.Errorf("%#v is %q, want %q, %v", v.printed, out.String(), v.want, err)
		}
	}
}
