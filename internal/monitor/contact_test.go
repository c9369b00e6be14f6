package monitor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/monitor"
)

func TestContactFaults(t *testing.T) {
	t.Parallel()
	good := monitor.Contact{Name: "Ann", Email: "a@b.cd"}
	long := strings.Repeat("ü", 64)
	for name, test := range map[string]struct {
		change func(c *monitor.Contact)
		want   []string
	}{
		"shortest":        {func(c *monitor.Contact) { c.Name, c.Group, c.Phone.Primary = "Al", "ab", "1234567" }, nil},
		"longest":         {func(c *monitor.Contact) { c.Name, c.Group = long, long[:100] }, nil},
		"longest address": {func(c *monitor.Contact) { c.Email = strings.Repeat("a", 60) + "@" + strings.Repeat("b", 36) + ".io" }, nil},
		"full phone": {func(c *monitor.Contact) {
			c.Phone = monitor.Phone{Primary: "+49 (0)30 123-456.7 x89", Secondary: strings.Repeat("1", 32)}
		}, nil},
		"nothing": {func(c *monitor.Contact) { *c = monitor.Contact{} }, []string{
			"name: Length must be 2-64 characters", "email: Length must be 6-100 characters",
		}},
		"everything": {
			func(c *monitor.Contact) {
				*c = monitor.Contact{
					Name: "A\nnn", Email: "Ann <a@b.cd>", Group: "x",
					Phone: monitor.Phone{Primary: "call me", Secondary: "+-().x 123456"},
				}
			},
			[]string{
				"name: Must not contain control characters", "email: Must be an e-mail address", "group: Length must be 2-50 characters",
				"phone.primary: May only contain digits, spaces and + - ( ) . x", "phone.secondary: Must have at least 7 digits",
			},
		},
		"too long": {
			func(c *monitor.Contact) {
				*c = monitor.Contact{
					Name: long + "x", Email: strings.Repeat("a", 95) + "@b.cde", Group: long,
					Phone: monitor.Phone{Primary: "123456", Secondary: strings.Repeat("1", 33)},
				}
			},
			[]string{
				"name: Length must be 2-64 characters", "email: Length must be 6-100 characters", "group: Length must be 2-50 characters",
				"phone.primary: Length must be 7-32 characters", "phone.secondary: Length must be 7-32 characters",
			},
		},
		"a header in the address": {func(c *monitor.Contact) { c.Email = "a@b.cd\r\nBcc: x@y.z" }, []string{"email: Must be an e-mail address"}},
		"two addresses":           {func(c *monitor.Contact) { c.Email = "a@b.cd, x@y.z" }, []string{"email: Must be an e-mail address"}},
		"no domain":               {func(c *monitor.Contact) { c.Email = "nobody@" }, []string{"email: Must be an e-mail address"}},
		"digits of another script": {
			func(c *monitor.Contact) { c.Phone.Primary = "٠١٢٣٤٥٦٧" },
			[]string{"phone.primary: May only contain digits, spaces and + - ( ) . x"},
		},
	} {
		c := good
		test.change(&c)
		var got []string
		for _, f := range c.Validate() {
			got = append(got, f.Error())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
