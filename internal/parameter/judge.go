package parameter

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Judge says what is wrong with a value on a server, "" for nothing. What several
// values need of the plan's memory together is Fits' to judge.
func (p Parameter) Judge(value any, s Server) string {
	if p.library != "" && !p.OfferedOn(s) {
		return fmt.Sprintf("%s has no library %s here", s.named(), p.library)
	}
	if !p.OfferedOn(s) {
		return fmt.Sprintf("%s doesn't have this parameter: it is for %s", s.named(), p.Only())
	}
	if p.logs && s.Unlogged != "" && p.switchesOn(value) {
		return s.Unlogged
	}
	switch p.Type {
	case Boolean:
		if _, ok := value.(bool); !ok {
			return "Must be true or false"
		}
		return ""
	case Text:
		return p.judgeText(value, s)
	}
	return p.judgeNumber(value, s)
}

// switchesOn reports whether the value has something done that isn't without it.
func (p Parameter) switchesOn(value any) bool {
	number, whole := value.(int64)
	text, isText := value.(string)
	return value == true || whole && number >= 0 || isText && text != auditNone
}

func (p Parameter) judgeNumber(value any, s Server) string {
	number, whole := value.(int64)
	amount, isNumber := float64(number), whole
	if f, ok := value.(float64); ok {
		amount, isNumber = f, true
	}
	switch {
	case !isNumber && p.Type == Number:
		return "Must be a number"
	case !whole && p.Type == Integer:
		return "Must be a whole number"
	case math.IsNaN(amount), amount < p.Minimum, amount > p.Maximum:
		return fmt.Sprintf("Must be from %s to %s", decimal(p.Minimum), decimal(p.Maximum))
	case p.Step > 1 && number%p.Step != 0:
		return fmt.Sprintf("Must be a multiple of %d", p.Step)
	}
	if most := p.Most(s); amount > float64(most) {
		return fmt.Sprintf("Must be at most %d with the type %s", most, s.Type)
	}
	return ""
}

// Most is the greatest whole number that can be chosen with a plan.
func (p Parameter) Most(s Server) int64 {
	if p.most == nil || s.MemoryMB == 0 {
		return int64(p.Maximum)
	}
	most := min(p.most(s), int64(p.Maximum))
	if p.Step > 1 {
		most -= most % p.Step
	}
	return max(most, int64(p.Minimum))
}

func (p Parameter) judgeText(value any, s Server) string {
	text, ok := value.(string)
	switch {
	case !ok:
		return "Must be a string"
	case len(p.Enum) > 0 && !slices.Contains(p.Enum, text):
		if len(p.Enum) > 10 {
			return "Must be one of those that GET /v4/databases/" + s.Family + "/config lists"
		}
		return "Must be one of " + strings.Join(p.Enum, ", ")
	case p.MaxLength > 0 && len(text) > p.MaxLength:
		return fmt.Sprintf("Must be at most %d characters", p.MaxLength)
	case p.Pattern != "" && !regexp.MustCompile(p.Pattern).MatchString(text):
		return "Must match " + p.Pattern
	case p.check != nil:
		return p.check(text, s)
	}
	return ""
}

// decimal is a number as people write it.
func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
