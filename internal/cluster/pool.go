package cluster

import (
	"strings"

	"steward/internal/fault"
)

// PoolMode is when a pool takes a server's connection back from its client.
type PoolMode string

// The modes of a pool: after each transaction, when the client leaves, after each statement.
const (
	PoolTransaction PoolMode = "transaction"
	PoolSession     PoolMode = "session"
	PoolStatement   PoolMode = "statement"
)

// Pool is a connection pool: many clients share a few connections to one logical database.
type Pool struct {
	// Label is what clients name as the database that they connect to.
	Label string `json:"label"`
	// Database is the logical database behind it.
	Database string   `json:"database"`
	Mode     PoolMode `json:"mode"`
	// Size is how many connections to the server it has at most, for all users together.
	Size int `json:"size"`
	// User is the only one who may log in to it, "" for all. Who comes logs in as themselves: the pooler has no password to log in as
	// others with.
	User string `json:"user,omitempty"`
}

const (
	// MaxPoolLabel is how many bytes a label may have.
	MaxPoolLabel = 63
	// MaxPools is how many a database may have.
	MaxPools = 50
	// poolerDatabase is what the pooler calls its own console.
	poolerDatabase = "pgbouncer"
	// longestDatabaseName is how many bytes PostgreSQL keeps of a name.
	longestDatabaseName = 63
	// longestUserName is the same of a user's.
	longestUserName = 63
)

// Validate returns all that is wrong with a pool by itself.
func (p Pool) Validate() (faults fault.Faults) {
	switch {
	case p.Label == "" || len(p.Label) > MaxPoolLabel:
		faults = append(faults, fault.Length("label", 1, MaxPoolLabel))
	case strings.ContainsFunc(p.Label, notOfPoolLabel) || p.Label[0] == '-':
		faults.Add("label", "May only contain letters, digits, - and _, and must not start with -")
	case strings.EqualFold(p.Label, poolerDatabase):
		faults.Add("label", "This name is reserved")
	}
	hidden := func(c rune) bool { return c < ' ' || c == 0x7f }
	switch {
	case p.Database == "" || len(p.Database) > longestDatabaseName:
		faults.Add("database", "Must be 1-%d bytes long", longestDatabaseName)
	case strings.ContainsFunc(p.Database, hidden):
		faults.Add("database", "Must not contain control characters: the pooler can't be told of such a database")
	}
	switch {
	case len(p.User) > longestUserName:
		faults.Add("username", "Must be 1-%d bytes long, or null", longestUserName)
	case strings.ContainsFunc(p.User, hidden), strings.ContainsAny(p.User, `"\`):
		faults.Add("username", `Must not contain control characters, " or \: the pooler can't be told of such a user`)
	}
	if p.Mode != PoolTransaction && p.Mode != PoolSession && p.Mode != PoolStatement {
		faults = append(faults, fault.OneOf("mode", PoolTransaction, PoolSession, PoolStatement))
	}
	if p.Size < 1 {
		faults.Add("size", "Must be at least 1")
	}
	return faults
}

func notOfPoolLabel(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// PoolSizes adds up the connections that pools have at most.
func PoolSizes(pools []Pool) (sum int) {
	for _, p := range pools {
		sum += p.Size
	}
	return sum
}
