package postgresql

import (
	"slices"
	"testing"
)

func TestParseLSN(t *testing.T) {
	for text, want := range map[string]lsn{"": 0, "0/0": 0, "0/F82E50": 0xF82E50, "16/B374D848": 0x16B374D848, "FFFFFFFF/FFFFFFFF": ^lsn(0)} {
		got, err := parseLSN(text)
		if err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "/", "0/", "/0", "x/0", "0/x", "100000000/0", "0/100000000", "-1/0", "0/0/0", " 0/0"} {
		if got, err := parseLSN(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzParseLSN(f *testing.F) {
	f.Add("16/B374D848")
	f.Add("0/")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := parseLSN(text)
		if err != nil {
			return
		}
		if again, err := parseLSN(l.String()); err != nil || again != l {
			t.Errorf("%q is %v, then %v, %v", text, l, again, err)
		}
	})
}

func TestParseHistory(t *testing.T) {
	const file = "1\t0/3000000\tno recovery target specified\n\n# a remark\n  2\t0/5000000\tbefore 2000-01-01 00:00:00+00\n"
	got, err := parseHistory(file, timeline{3, 0x6000000})
	want := history{{1, 0x3000000}, {2, 0x5000000}, {3, 0x6000000}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("history is %v, %v", got, err)
	}
	for _, file := range []string{"1", "x\t0/3\n", "1\tx\n", "-1\t0/3", "4294967296\t0/3"} {
		if got, err := parseHistory(file, timeline{}); err == nil {
			t.Errorf("%q is %v", file, got)
		}
	}
}

func FuzzParseHistory(f *testing.F) {
	f.Add("1\t0/3000000\tno recovery target specified\n")
	f.Fuzz(func(t *testing.T, file string) {
		l, err := parseHistory(file, timeline{9, 9})
		if err != nil {
			return
		}
		if l[len(l)-1] != (timeline{9, 9}) {
			t.Errorf("the current timeline isn't the last of %v", l)
		}
		if len(l) > 1 && l.common(l) != l[len(l)-1].end {
			t.Errorf("%v parts from itself at %v", l, l.common(l))
		}
	})
}

func TestPartsFrom(t *testing.T) {
	const segment = 4 << 20
	source := descent{identifier: "7", history: history{{1, 100}, {2, 200}, {3, 10 * segment}}, received: 10 * segment, oldest: 0, segmentSize: segment}
	for name, c := range map[string]struct {
		history  history
		received lsn
		change   func(*descent)
		parts    bool
	}{
		"on the same timeline":                  {history: history{{1, 100}, {2, 200}, {3, 500}}},
		"level with its source":                 {history: history{{1, 100}, {2, 200}, {3, 10 * segment}}, received: 10 * segment},
		"ahead of its source":                   {history: history{{1, 100}, {2, 200}, {3, 10*segment + 8}}, parts: true},
		"left before the fork":                  {history: history{{1, 100}, {2, 199}}},
		"left at the fork":                      {history: history{{1, 100}, {2, 200}}},
		"left after the fork":                   {history: history{{1, 100}, {2, 201}}, parts: true},
		"two forks ago":                         {history: history{{1, 50}}},
		"two forks ago, beyond":                 {history: history{{1, 101}}, parts: true},
		"same number, another fork":             {history: history{{1, 90}, {2, 95}}, parts: true},
		"same number, a later fork":             {history: history{{1, 110}, {2, 120}}, parts: true},
		"a fork of its own":                     {history: history{{1, 100}, {2, 200}, {4, 250}}, parts: true},
		"follows, not yet at the fork":          {history: history{{1, 100}, {2, 200}, {3, 150}}},
		"another cluster":                       {history: history{{1, 50}}, change: func(d *descent) { d.identifier = "8" }, parts: true},
		"what it needs was removed":             {history: history{{1, 50}}, received: segment, change: func(d *descent) { d.oldest = 2 }, parts: true},
		"what it needs is there":                {history: history{{1, 50}}, received: segment, change: func(d *descent) { d.oldest = 1 }},
		"needs nothing, though all was removed": {history: history{{1, 50}}, received: 10 * segment, change: func(d *descent) { d.oldest = 11 }},
	} {
		replica, from := descent{identifier: "7", history: c.history, received: c.received, segmentSize: segment}, source
		replica.applied = c.history[len(c.history)-1].end
		if c.change != nil {
			c.change(&from)
		}
		if why := replica.partsFrom(from); (why != nil) != c.parts {
			t.Errorf("%s: %v", name, why)
		}
	}
}
