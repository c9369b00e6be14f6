package catalog

import (
	"strings"
	"testing"
)

func TestNew(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string // parts of the error; none: it loads
	}{
		{"nothing replaced", "", nil},
		{"types replaced", "types:\n  - {id: small, label: Small, class: standard, memory: 1024, disk: 2048, vcpus: 1, hourly: 0.1}\n", nil},
		{"networks of a region", "regions:\n  - {id: office, networks: [10.1.0.0/16, 'fd00:1::/32']}\n", nil},
		{
			"networks that aren't private", "regions:\n  - {id: a, networks: [192.0.2.0/24, 10.1.2.3/16, 0.0.0.0/0]}\n",
			[]string{"regions[0] (a): networks: 192.0.2.0/24", "10.1.2.3/16", "0.0.0.0/0"},
		},
		{"networks that aren't networks", "regions:\n  - {id: a, networks: [office]}\n", []string{"office"}},
		{"unknown key", "types:\n  - {id: a, memroy: 1}\n", []string{"line 2", "memroy"}},
		{"wrong type", "types:\n  - {id: a, memory: lots}\n", []string{"line 2", "lots"}},
		{
			"all problems at once", "types:\n  - {id: a, memory: 1, disk: 1}\n  - {id: a, memory: 1024, disk: 2048, vcpus: 1, hourly: -1}\nregions: []\n",
			[]string{"types[0] (a): memory", "disk must", "vcpus must", "types[1] (a): id is there twice", "prices", "regions: must not be empty"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, err := New([]byte(test.text), nil)
			if len(test.want) == 0 {
				if err != nil || len(c.Plans) == 0 || len(c.Regions) == 0 {
					t.Errorf("%+v, %v", c, err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error doesn't say %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestDeprecatedPlanTakesNoNewDatabases(t *testing.T) {
	t.Parallel()
	c := &Catalog{Plans: []Plan{{ID: "old", Deprecated: true}, {ID: "new"}}}
	if c.HasType("old", "", 1) || !c.HasType("new", "", 1) {
		t.Error("deprecated plans must take no new databases, others must")
	}
	if _, ok := c.Plan("old"); !ok {
		t.Error("a deprecated plan must still be found for the databases that have it")
	}
}
