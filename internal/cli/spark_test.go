package cli

import "testing"

func TestSpark(t *testing.T) {
	v := func(list ...float64) (values []*float64) {
		for _, one := range list {
			if one < 0 {
				values = append(values, nil)
			} else {
				values = append(values, &one)
			}
		}
		return values
	}
	for _, c := range []struct {
		values []*float64
		want   string
	}{
		{nil, ""},
		{v(0, 0), "▁▁"},
		{v(0, 1, 2, 3, 4, 5, 6, 7, 8), "▁▂▃▄▅▅▆▇█"},
		{v(8, -1, 4), "█ ▅"},
		{v(1, 8, -1, -1, 0, 4), "█ ▅"},
	} {
		width := 9
		if len(c.values) == 6 {
			width = 3
		}
		if got := spark(c.values, width); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
