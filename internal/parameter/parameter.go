// Package parameter holds which settings of a database server its owner may
// choose: the API's engine_config. What steward itself relies upon (who logs in,
// replication, durability, archiving, what is logged, how many connections there
// are) is no parameter. Everything here is plain rules: no I/O, no clock.
package parameter

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// Flavour is the make of a server.
type Flavour string

// MySQL's family has two flavours.
const (
	PostgreSQL Flavour = "postgresql"
	MariaDB    Flavour = "mariadb"
	MySQL      Flavour = "mysql"
)

// title is the flavour's name for people.
func (f Flavour) title() string {
	switch f {
	case PostgreSQL:
		return "PostgreSQL"
	case MariaDB:
		return "MariaDB"
	}
	return "MySQL"
}

// Type is what a value is, in words of JSON Schema.
type Type string

// The types there are.
const (
	Integer Type = "integer"
	Number  Type = "number"
	Boolean Type = "boolean"
	Text    Type = "string"
)

// Parameter is one setting that can be chosen.
type Parameter struct {
	// Name is its member of engine_config: "pg.jit", "work_mem".
	Name string
	Type Type
	// Description is a sentence or two for customers, with the unit.
	Description string
	// Minimum and Maximum bound numbers, both inclusive.
	Minimum, Maximum float64
	// Step divides a number: servers round others, and would then show something
	// else than what was asked for. 0 and 1 are any.
	Step int64
	// Enum are the texts there are; Pattern and MaxLength bound other texts.
	Enum      []string
	Pattern   string
	MaxLength int
	Example   any
	// Restart reports whether a server takes a new value only when it starts.
	Restart bool

	// setting is the server's name for it when that isn't the last part of Name;
	// unit follows the number in PostgreSQL's file.
	setting, unit string
	// in are the servers that have it; nil for all of the family.
	in []release
	// check says what is wrong with a text that a server wouldn't take; "" for nothing.
	check func(value string, s Server) string
	// most is the greatest value that a plan bears; nil for Maximum.
	most func(s Server) int64
	// replicated reports whether a PostgreSQL replica must not have less than its primary.
	replicated bool
	// logs reports whether statements are written to a log, unless the value is false, negative or "none".
	logs bool
	// library is what PostgreSQL has to load at its start, which not every build comes with; "" for none.
	library string
}

// release are the series of a flavour by their major versions; 0 is no limit.
type release struct {
	flavour      Flavour
	since, until int
}

// Server is what a value is judged for: the server's series, and the plan's size.
type Server struct {
	// Family is the API's engine, "mysql" or "postgresql"; Series the release series.
	Family, Series string
	// MemoryMB is 0 where the plan isn't known: then only what doesn't depend on it
	// is judged.
	MemoryMB, DiskMB, VCPUs int
	// Type is the plan's name.
	Type string
	// Unlogged says why customers' statements must not be logged; "" when they may.
	Unlogged string
	// Libraries are those that the server comes with, of Libraries.
	Libraries []string
}

// Flavour is the make of the server: the series of MariaDB and MySQL never clash.
func (s Server) Flavour() Flavour {
	switch {
	case s.Family == string(PostgreSQL):
		return PostgreSQL
	case s.major() >= 10:
		return MariaDB
	}
	return MySQL
}

func (s Server) major() int {
	text, _, _ := strings.Cut(s.Series, ".")
	n, _ := strconv.Atoi(text)
	return n
}

// named is how people call the server: "MariaDB 10.11".
func (s Server) named() string { return s.Flavour().title() + " " + s.Series }

// OfferedOn reports whether a server has the parameter.
func (p Parameter) OfferedOn(s Server) bool {
	if p.library != "" && !slices.Contains(s.Libraries, p.library) {
		return false
	}
	if p.in == nil {
		return true
	}
	return slices.ContainsFunc(p.in, func(r release) bool {
		return r.flavour == s.Flavour() && s.major() >= r.since && (r.until == 0 || s.major() <= r.until)
	})
}

// Setting is the server's own name for it.
func (p Parameter) Setting() string {
	if p.setting != "" {
		return p.setting
	}
	return path.Base(strings.ReplaceAll(p.Name, ".", "/"))
}

// Section is the part of engine_config that the parameter is in, "" for none, and
// Key its name there.
func (p Parameter) Section() (section, key string) {
	section, key, found := strings.Cut(p.Name, ".")
	if !found {
		return "", p.Name
	}
	return section, key
}

// Only says in words which servers have the parameter, "" when all of its family do.
func (p Parameter) Only() string {
	var names []string
	for _, r := range p.in {
		name := r.flavour.title()
		switch {
		case r.since > 0 && r.until > 0:
			name += " " + strconv.Itoa(r.since) + " to " + strconv.Itoa(r.until)
		case r.since > 0:
			name += " from " + strconv.Itoa(r.since) + " on"
		case r.until > 0:
			name += " up to " + strconv.Itoa(r.until)
		}
		names = append(names, name)
	}
	return strings.Join(names, " and ")
}

// Of are the parameters of a family of servers, ordered as the API shows them.
func Of(family string) []Parameter {
	if family == string(PostgreSQL) {
		return postgresql()
	}
	return mysql()
}

// Sections are the members of engine_config that hold parameters, always there in
// answers; the rest of them stand beside these.
func Sections(family string) []string {
	if family == string(PostgreSQL) {
		return []string{"pg", "pglookout"}
	}
	return []string{"mysql"}
}

// find is a parameter by its name.
func find(family, name string) (Parameter, bool) {
	all := Of(family)
	if i := slices.IndexFunc(all, func(p Parameter) bool { return p.Name == name }); i >= 0 {
		return all[i], true
	}
	return Parameter{}, false
}
