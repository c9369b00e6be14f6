// Package logical is what lies inside a database server: logical databases, the users that log in to them, and what those
// may do there. It has the rules of names and grants, and asks no server anything.
package logical

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"steward/internal/cluster"
	"steward/internal/fault"
)

// Root is the name of the root user that every cluster is born with.
const Root = "dbadmin"

// Database is one of a server's logical databases.
type Database struct {
	Name string
	// Owner is the user that it belongs to; "" where databases have none: MariaDB and MySQL.
	Owner string
	// Encoding and Collation are in the server's own words; empty in a request for the server's defaults.
	Encoding, Collation string
}

// Privilege is what a user may do in a database. Each includes those before it.
type Privilege string

// The privileges. What each is made of is in docs/operations.md.
const (
	Read  Privilege = "read"
	Write Privilege = "write"
	Owner Privilege = "owner"
)

// Privileges are all of them, from what is least.
var Privileges = []Privilege{Read, Write, Owner}

// Grant is what a user may do in one database.
type Grant struct {
	Database  string
	Privilege Privilege
}

// User is somebody who logs in to a server.
type User struct {
	Name   string
	Grants []Grant
}

// In is what a user may do in a database, "" for nothing.
func (u User) In(database string) Privilege {
	for _, g := range u.Grants {
		if g.Database == database {
			return g.Privilege
		}
	}
	return ""
}

const (
	// longestPostgreSQL is how many bytes PostgreSQL keeps of a name.
	longestPostgreSQL = 63
	longestMySQL      = 64
)

var (
	// ofPostgreSQL are names that mean something to PostgreSQL, to PgBouncer or to us, whatever their case.
	ofPostgreSQL = regexp.MustCompile(`^(pg_.*|steward.*|postgres|template[0-9]+|pgbouncer|dbadmin|public|none|replication|all|sameuser|samerole|streaming_replica)$`)
	// ofMySQL are those of MariaDB and MySQL, and of users that they need.
	ofMySQL         = regexp.MustCompile(`^(steward.*|mariadb.*|mysql|sys|dbadmin|root|public|current_user|current_role|session_user|system_user|none)$`)
	schemaOfMySQL   = regexp.MustCompile(`^(steward.*|mysql|sys|information_schema|performance_schema)$`)
	userInMySQL     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$`)
	databaseInMySQL = regexp.MustCompile(`^[A-Za-z0-9_$-]{1,64}$`)
	// fileOfMariaDB are names of files beside which MariaDB puts a folder for each database.
	fileOfMariaDB = regexp.MustCompile(`^(xtrabackup_|mariadb_backup_|ib_logfile|undo[01]..$)`)
)

// CheckDatabase is nil when a new database may have the name.
func CheckDatabase(engine cluster.Engine, field, name string) *fault.Fault {
	if engine == cluster.PostgreSQL {
		return checkPostgreSQL(field, name)
	}
	switch {
	case !databaseInMySQL.MatchString(name):
		return fault.NewInvalid(field, "Must be 1-%d letters, digits, _, $ and -", longestMySQL)
	case schemaOfMySQL.MatchString(strings.ToLower(name)):
		return reserved(field)
	case fileOfMariaDB.MatchString(name):
		return fault.NewInvalid(field, "The server needs this name for files of its own")
	}
	return nil
}

// CheckUser is nil when a new user may have the name.
func CheckUser(engine cluster.Engine, field, name string) *fault.Fault {
	if engine == cluster.PostgreSQL {
		return checkPostgreSQL(field, name)
	}
	switch {
	case !userInMySQL.MatchString(name):
		return fault.NewInvalid(field, "Must be 1-32 letters, digits, _ and -, beginning with a letter or digit")
	case ofMySQL.MatchString(strings.ToLower(name)):
		return reserved(field)
	}
	return nil
}

// checkPostgreSQL takes any text that can be seen and that paths can have: the server takes all.
func checkPostgreSQL(field, name string) *fault.Fault {
	hidden := func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }
	switch {
	case name == "" || len(name) > longestPostgreSQL:
		return fault.NewInvalid(field, "Must be 1-%d bytes long", longestPostgreSQL)
	case strings.Contains(name, "/") || name == "." || name == "..": // it is a part of paths
		return fault.NewInvalid(field, "Must not be . or .. or contain a /")
	case strings.TrimSpace(name) != name || strings.ContainsFunc(name, hidden):
		return fault.NewInvalid(field, "Must be of characters that can be seen, with blanks only between them")
	case ofPostgreSQL.MatchString(strings.ToLower(name)):
		return reserved(field)
	}
	return nil
}

func reserved(field string) *fault.Fault { return fault.NewInvalid(field, "This name is reserved") }

// Reserved reports whether a user is one that customers don't manage: ours, the server's own, and the root user, who has
// endpoints of its own.
func Reserved(engine cluster.Engine, user string) bool {
	if engine == cluster.PostgreSQL {
		return ofPostgreSQL.MatchString(strings.ToLower(user))
	}
	name := strings.ToLower(user)
	return name == "" || ofMySQL.MatchString(name) || strings.HasPrefix(name, "mysql.")
}

// OwnSchema reports whether a database of MariaDB's or MySQL's is the server's own, or ours.
func OwnSchema(name string) bool { return schemaOfMySQL.MatchString(strings.ToLower(name)) }

// FileName reports whether a database has a name that MariaDB needs for files.
func FileName(name string) bool { return fileOfMariaDB.MatchString(name) }

// CheckGrants names what is wrong with grants by themselves: what they are of is for the server to know.
func CheckGrants(field string, grants []Grant) (faults fault.Faults) {
	seen := map[string]bool{}
	for _, g := range grants {
		switch {
		case g.Database == "" || len(g.Database) > longestMySQL:
			faults.Add(field, "The name of a database is 1-%d bytes long", longestMySQL)
		case !slices.Contains(Privileges, g.Privilege):
			faults.Add(field, "The privilege is one of read, write, owner")
		case seen[g.Database]:
			faults.Add(field, "Name each database once: %s is there twice", fault.Quote([]string{g.Database}))
		}
		seen[g.Database] = true
	}
	return faults
}

// NoDatabase is the fault of a grant on what isn't there.
func NoDatabase(field, name string) *fault.Fault {
	return fault.NewInvalid(field, "There is no database %s", fault.Quote([]string{name}))
}

// Taken is the fault of a name that another one has.
func Taken(field string) *fault.Fault {
	return fault.NewInvalid(field, "Must be unique within the database server; this one is taken")
}
