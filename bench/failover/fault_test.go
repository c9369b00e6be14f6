package main

import "testing"

// TestFaultsHaveEffects: what left all as it was isn't measured.
func TestFaultsHaveEffects(t *testing.T) {
	t.Parallel()
	one, again, two := Node{Name: "1", Server: 10}, Node{Name: "1", Server: 11}, Node{Name: "2", Server: 20}
	for _, test := range []struct {
		kind     string
		size     int
		now      Node
		happened bool
	}{
		{switchover, 3, one, false},
		{switchover, 3, again, false},
		{switchover, 3, two, true},
		{switchover, 1, one, false},
		{switchover, 1, again, true},
		{kill9, 3, one, false},
		{kill9, 3, again, true},
		{kill9, 3, two, true},
	} {
		if err := (fault{kind: test.kind}).happened(test.size, one, test.now); (err == nil) != test.happened {
			t.Errorf("%s of one of %d, then %+v: %v", test.kind, test.size, test.now, err)
		}
	}
}
