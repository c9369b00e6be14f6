package client

import "testing"

func TestPick(t *testing.T) {
	all := []Service{{ID: 1, Label: "shop"}, {ID: 2, Label: "1"}, {ID: 3, Label: "twin"}, {ID: 4, Label: "twin"}}
	for _, c := range []struct {
		text, fault string
		want        int64
	}{
		{"shop", "", 1},
		{"1", "", 1}, // an id goes before a label
		{"4", "", 4},
		{"twin", "2 services are called \"twin\": use an id", 0},
		{"none", "there is no service \"none\"", 0},
	} {
		found, err := pick(all, "service", c.text, func(s Service) (int64, []string) { return s.ID, []string{s.Label} })
		if found.ID != c.want || (err == nil) != (c.fault == "") || err != nil && err.Error() != c.fault {
			t.Errorf("%s is %d, %v", c.text, found.ID, err)
		}
	}
}
