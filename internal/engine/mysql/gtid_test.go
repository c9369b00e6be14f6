package mysql

import (
	"testing"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "3e11fa47-71ca-11e1-9e33-c80aa9429563"
)

func TestParseGTIDs(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5:7": uuidA + ":1-5:7",
		uuidA + ":6:1-5,\n" + uuidB + ":2":           uuidA + ":1-6," + uuidB + ":2",
		uuidA + ":1-3:shop:4-5:9, " + uuidA + ":4":   uuidA + ":1-4," + uuidA + ":shop:4-5:9",
		uuidA + ":9#12#13:10#4":                      uuidA + ":9-10",
		uuidA + ":3-9:5:1-3":                         uuidA + ":1-9",
	} {
		got, err := parseGTIDs(text)
		if err != nil || got.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"x", uuidA, uuidA + ":", uuidA + ":0", uuidA + ":5-4", uuidA + ":-", uuidA + ":1-2-3", uuidA + ":18446744073709551615", uuidA + ":a-b"} {
		if got, err := parseGTIDs(text); err == nil {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

func TestGTIDSets(t *testing.T) {
	set := func(text string) gtidSet {
		s, err := parseGTIDs(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	big := set(uuidA + ":1-10:20," + uuidB + ":1")
	for _, small := range []string{"", uuidA + ":10", uuidA + ":1-10", uuidA + ":2:20", uuidB + ":1"} {
		if !big.holds(set(small)) {
			t.Errorf("%q isn't in %q", small, big)
		}
	}
	for _, other := range []string{uuidA + ":11", uuidA + ":10-20", uuidB + ":2", uuidA + ":shop:1"} {
		if big.holds(set(other)) {
			t.Errorf("%q is in %q", other, big)
		}
	}
	if n := union(big, set(uuidA+":5-12")).count(); n != 14 {
		t.Errorf("%d transactions, want 14", n)
	}
}

// FuzzGTIDs: what can be read is written so that it reads the same, and behaves as a set.
func FuzzGTIDs(f *testing.F) {
	f.Add(uuidA+":1-5:7:shop:1", uuidB+":9#3")
	f.Add(uuidA+":3-9:5:1-3", uuidA+":10")
	f.Add(uuidA+":9223372036854775807", "")
	f.Fuzz(func(t *testing.T, one, two string) {
		a, err := parseGTIDs(one)
		if err != nil {
			return
		}
		again, err := parseGTIDs(a.String())
		if err != nil || again.String() != a.String() || again.count() != a.count() {
			t.Fatalf("%q reads as %q, then as %q, %v", one, a, again, err)
		}
		b, err := parseGTIDs(two)
		if err != nil {
			return
		}
		both := union(a, b)
		if !both.holds(a) || !both.holds(b) || !a.holds(a) {
			t.Fatalf("%q doesn't hold %q and %q", both, a, b)
		}
		if a.holds(b) != (both.String() == a.String()) {
			t.Fatalf("%q holds %q: %v, but together they are %q", a, b, a.holds(b), both)
		}
	})
}
