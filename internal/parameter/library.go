package parameter

import (
	"slices"
	"strings"

	"steward/internal/fault"
)

// Libraries of PostgreSQL that a parameter has the server load at its start.
const (
	cronLibrary    = "pg_cron"
	auditLibrary   = "pgaudit"
	partmanLibrary = "pg_partman_bgw"
)

// The parameters that have a library loaded: without them it isn't.
const (
	cronDatabase    = "pg.cron.database_name"
	auditLog        = "pg.pgaudit.log"
	partmanDatabase = "pg.pg_partman_bgw.dbname"
)

// auditNone is the class of statements that is empty.
const auditNone = "none"

// loaders are the parameters by the library that each has loaded.
var loaders = map[string]string{cronLibrary: cronDatabase, auditLibrary: auditLog, partmanLibrary: partmanDatabase}

// Libraries are those of PostgreSQL that parameters have loaded, in the order in which servers load them.
func Libraries() []string { return []string{auditLibrary, cronLibrary, partmanLibrary} }

// Loader is the parameter that has a library loaded, "" when none does.
func Loader(library string) string { return loaders[library] }

// Loads are the libraries that the config has a server load.
func (c Config) Loads(s Server) (loaded []string) {
	for _, chosen := range c.Values(s) {
		if loaders[chosen.library] == chosen.Name {
			loaded = append(loaded, chosen.library)
		}
	}
	return loaded
}

// unloaded names what is asked for of libraries that nothing has loaded.
func (c Config) unloaded(family string, asked map[string]any) (faults fault.Faults) {
	for _, p := range Of(family) {
		if loader := loaders[p.library]; asked[p.Name] != nil && loader != "" && c[p.Name] != nil && c[loader] == nil {
			faults.Add(field(p.Name), "Needs %s, which has %s loaded", field(loader), p.library)
		}
	}
	return faults
}

// RunsJobs reports whether servers with the config begin work by themselves, for which they have to be awake.
func (c Config) RunsJobs() bool { return c[cronDatabase] != nil || c[partmanDatabase] != nil }

// libraryParameters are those of what has to be loaded.
func libraryParameters() []Parameter {
	const day = 24 * 60 * 60
	return []Parameter{
		{
			Name: cronDatabase, Type: Text, MaxLength: longestName, Example: "defaultdb", Restart: true, library: cronLibrary, setting: "cron.database_name", check: customersDatabase,
			Description: "Loads pg_cron, whose jobs are kept in this logical database, with the extension pg_cron in it. A database that runs jobs doesn't fall asleep.",
		},
		{
			Name: partmanDatabase, Type: Text, MaxLength: longestName, Example: "defaultdb", Restart: true, library: partmanLibrary, setting: "pg_partman_bgw.dbname", check: customersDatabase,
			Description: "Loads pg_partman's worker, which maintains the partitions of this logical database as dbadmin, with the extension pg_partman in it. " +
				"A database that runs it doesn't fall asleep.",
		},
		{
			Name: "pg.pg_partman_bgw.interval", Type: Integer, Minimum: 60, Maximum: 7 * day, Example: 3600, library: partmanLibrary, setting: "pg_partman_bgw.interval",
			Description: "Seconds between two rounds of pg_partman's worker, which is loaded by pg.pg_partman_bgw.dbname; 3600 unless chosen.",
		},
		{
			Name: auditLog, Type: Text, MaxLength: 100, Example: "ddl,role,write", Restart: true, library: auditLibrary, setting: "pgaudit.log", logs: true, check: auditClasses,
			Description: "Loads pgaudit, which logs each statement of these classes: read, write, function, role, ddl, misc, misc_set, all, or none; a minus takes one away. " +
				"GET …/logs shows them without their values; the server's file has statements as they were sent, but for passwords of CREATE and ALTER ROLE.",
		},
	}
}

// longestName is how many bytes a name inside a server may have.
const longestName = 63

// customersDatabase says what is wrong with the name of a logical database that workers connect to. Nothing may be connected for long to those
// that others are made of.
func customersDatabase(name string, _ Server) string {
	switch {
	case name == "", strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == ',' || r == '"' || r == 0x7f }):
		return "Must be the name of a logical database, without commas and quotes"
	case slices.Contains([]string{"postgres", "template0", "template1"}, name):
		return "Must be a logical database of yours"
	}
	return ""
}

// auditClasses says what is wrong with a list of classes of statements.
func auditClasses(list string, _ Server) string {
	known := []string{"read", "write", "function", "role", "ddl", "misc", "misc_set", "all", auditNone}
	for class := range strings.SplitSeq(list, ",") {
		if name := strings.TrimPrefix(class, "-"); !slices.Contains(known, name) {
			return "Must be classes separated by commas, of " + strings.Join(known, ", ") + ", each with or without a minus"
		}
	}
	return ""
}
