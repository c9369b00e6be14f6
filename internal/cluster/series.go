package cluster

import (
	"regexp"
	"strings"
)

var installation = regexp.MustCompile(`^(postgresql|mariadb|mysql)-([0-9]+)\.([0-9]+)`)

// SeriesOf returns the release series that an installation is of, by its id: "15" of postgresql-15.18-debian; "" when that doesn't say.
func SeriesOf(id string) string {
	m := installation.FindStringSubmatch(id)
	switch {
	case m == nil:
		return ""
	case m[1] == string(PostgreSQL):
		return m[2]
	}
	return strings.Join(m[2:4], ".")
}
