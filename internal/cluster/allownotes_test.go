package cluster_test

import (
	"maps"
	"strings"
	"testing"

	"steward/internal/cluster"
)

func TestParseAllowNotes(t *testing.T) {
	t.Parallel()
	list := cluster.AllowList{"192.0.2.1", "10.0.0.0/8"}
	for _, c := range []struct {
		name  string
		notes map[string]string
		want  cluster.AllowNotes
		fault string
	}{
		{"none", nil, nil, ""},
		{"empty ones are none", map[string]string{"192.0.2.1": " ", "elsewhere": ""}, nil, ""},
		{"in any script, without what stands around", map[string]string{"10.0.0.0/8": " 事務所 & home ", "192.0.2.1": strings.Repeat("é", 100)}, cluster.AllowNotes{"10.0.0.0/8": "事務所 & home", "192.0.2.1": strings.Repeat("é", 100)}, ""},
		{"of what isn't there, all of them", map[string]string{"192.0.2.2": "a", "192.0.2.1/32": "another spelling"}, nil, "allow_list_notes: Notes on what isn't in allow_list: 192.0.2.1/32, 192.0.2.2"},
		{"long, and of more than a line", map[string]string{"192.0.2.1": strings.Repeat("x", 101), "10.0.0.0/8": "a\nb"}, nil, "allow_list_notes: Must be at most 100 printable characters on one line: the notes on 10.0.0.0/8, 192.0.2.1"},
	} {
		got, err := cluster.ParseAllowNotes(c.notes, list)
		if fault := ""; err != nil || c.fault != "" {
			if err != nil {
				fault = err.Error()
			}
			if fault != c.fault {
				t.Errorf("%s: %q, want %q", c.name, fault, c.fault)
			}
			continue
		}
		if !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
