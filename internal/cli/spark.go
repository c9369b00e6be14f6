package cli

import "strings"

// sparkWidth fits a terminal beside a word or two.
const sparkWidth = 60

var sparks = []rune("▁▂▃▄▅▆▇█")

// spark draws values as bars between zero and the highest, several to a bar (the
// highest of them) when there are more than width. nil is a gap.
func spark(values []*float64, width int) string {
	top := 0.0
	for _, v := range values {
		if v != nil {
			top = max(top, *v)
		}
	}
	var line strings.Builder
	each := max(1, (len(values)+width-1)/width)
	for len(values) > 0 {
		n := min(each, len(values))
		line.WriteRune(bar(values[:n], top))
		values = values[n:]
	}
	return line.String()
}

func bar(values []*float64, top float64) rune {
	height := -1.0
	for _, v := range values {
		if v != nil {
			height = max(height, *v)
		}
	}
	switch {
	case height < 0:
		return ' '
	case top == 0:
		return sparks[0]
	}
	return sparks[int(height/top*float64(len(sparks)-1)+0.5)]
}
