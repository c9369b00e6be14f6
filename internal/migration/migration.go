// Package migration is what brings databases from servers elsewhere into a cluster: what is asked for, what is found out beforehand, and how
// far it is. It also has the rules of how a dump is passed on to programs that read it. It asks no server anything.
package migration

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/cluster"
	"steward/internal/fault"
	"steward/internal/logical"
)

// ID identifies a migration.
type ID int64

// Mode is how data comes over.
type Mode string

// Dump copies the data once, as of one moment. Replicate goes on with what is written afterwards, until the cutover.
const (
	Dump      Mode = "dump"
	Replicate Mode = "replicate"
)

// Status is how far a migration is.
type Status string

// A migration goes from pending over running to one of the last three; canceling is a running one whose end was asked for.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Canceling Status = "canceling"
	Finished  Status = "finished"
	Failed    Status = "failed"
	Canceled  Status = "canceled"
)

// Ended reports whether nothing more will happen.
func (s Status) Ended() bool { return s == Finished || s == Failed || s == Canceled }

// TLS is what a connection to a source has to be.
type TLS string

// Verify wants a certificate of a known authority, for the source's name; Require one of anybody's; Off sends everything in the clear.
const (
	Verify  TLS = "verify"
	Require TLS = "require"
	Off     TLS = "off"
)

// Source is the server elsewhere. Its password is kept beside it, sealed.
type Source struct {
	Host     string
	Port     int
	Username string
	TLS      TLS
	// CA are certificates, as PEM, of the authorities that a verified source's is of; "" for the system's.
	CA string
}

// Database is one to bring over: From is its name at the source, To the one that it gets. It is written as JSON into rows.
type Database struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Making reports whether the target didn't exist and is about to be made, Made whether we have made it, so that what is in it
	// is ours to remove.
	Making bool `json:"making,omitempty"`
	Made   bool `json:"made,omitempty"`
	// Slot names what a source keeps for us while it is followed; "" for a copy as of one moment.
	Slot string `json:"slot,omitempty"`
	// Followed reports whether it was copied and is followed from there, Open whether it was cut over: what is in it is its owner's from then on.
	Followed bool `json:"followed,omitempty"`
	Open     bool `json:"open,omitempty"`
	// Done reports whether it is complete.
	Done bool `json:"done,omitempty"`
}

// Migration is one, asked for by an account for one of its clusters.
type Migration struct {
	ID        ID
	Account   account.ID
	Cluster   cluster.ID
	Source    Source
	Mode      Mode
	Databases []Database
	Status    Status
	Progress  Progress
	// Cutover is when its cutover was asked for.
	Cutover *time.Time
	// Problem is why it failed, or what is left to do, for people.
	Problem  string
	Created  time.Time
	Finished *time.Time
}

// Phase is what is being done.
type Phase string

// The phases, in their order; those from Schema to Analyzing come once for each database, those after it only where a source is followed.
const (
	Checking  Phase = "checking"
	Schema    Phase = "schema"
	Copying   Phase = "copying"
	Indexes   Phase = "indexes"
	Analyzing Phase = "analyzing"
	// Following keeps up with the source, CuttingOver waits for what it had when the cutover was asked for. From Validating on the databases
	// here are what applications may write to.
	Following   Phase = "following"
	CuttingOver Phase = "cutting_over"
	Validating  Phase = "validating"
)

// Lag is how far behind its source a database is.
type Lag struct {
	// Bytes is how much the source has logged since what was written here last.
	Bytes int64 `json:"bytes"`
	// Seconds is how long ago all was here that the source had, whole; 0 while it is.
	Seconds int64 `json:"seconds"`
}

// Progress is how far a migration is. It is written as JSON into rows.
type Progress struct {
	Phase Phase `json:"phase,omitempty"`
	// Database is the one, by its name at the source, that is being brought over.
	Database string `json:"database,omitempty"`
	// Bytes is how much was received, TotalBytes about how much there is, of all databases.
	Bytes      int64 `json:"bytes,omitempty"`
	TotalBytes int64 `json:"total_bytes,omitempty"`
	// Tables are those of the databases so far, MostTables of them at most: others are only counted.
	Tables     []Table   `json:"tables,omitempty"`
	TablesDone int       `json:"tables_done,omitempty"`
	TablesAll  int       `json:"tables_all,omitempty"`
	Problems   []Problem `json:"problems,omitempty"`
	// Lag is that of the database that is furthest behind; nil while none is followed.
	Lag *Lag `json:"lag,omitempty"`
	// Waiting is why nothing goes on now that may go on by itself, for people; "" while it goes on.
	Waiting string `json:"waiting,omitempty"`
}

// MostTables is how many tables are shown one by one.
const MostTables = 500

// Table is how far one table is.
type Table struct {
	Database string `json:"database"`
	Name     string `json:"name"`
	// Bytes is how much of it was received, in the source's words; TotalBytes about what it takes on the source's disk.
	Bytes      int64 `json:"bytes"`
	TotalBytes int64 `json:"total_bytes"`
	Done       bool  `json:"done"`
}

// Problem is something about a source that its owner should know beforehand.
type Problem struct {
	// Database is the one that it is about, "" for the server.
	Database string `json:"database,omitempty"`
	// Blocking reports whether nothing can be brought over while it lasts.
	Blocking bool   `json:"blocking"`
	Message  string `json:"message"`
}

// Report is what was found out about a source.
type Report struct {
	// Version is the source's, in its own words, cut to something that can be shown.
	Version string
	// Bytes is about what the databases take on the source's disk.
	Bytes int64
	// Replicates reports whether the source could be followed by replication, too.
	Replicates bool
	Problems   []Problem
}

// Blocks reports whether a problem keeps all from being brought over.
func (r Report) Blocks() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Blocking })
}

// MostDatabases is how many one migration brings over.
const MostDatabases = 20

var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*\.?$`)

// mostHost is how long a name may be that DNS knows, mostText how long what a server is told.
const mostHost, mostText = 253, 256

// Validate finds all that is wrong with what was asked for, by the field of the request.
func Validate(engine cluster.Engine, m Migration, password string) (faults fault.Faults) {
	s := m.Source
	if _, err := netip.ParseAddr(s.Host); err != nil && (!hostName.MatchString(s.Host) || len(s.Host) > mostHost) {
		faults.Add("source.host", "Must be a host name or an IP address")
	}
	if s.Port < 1 || s.Port > 65535 {
		faults.Add("source.port", "Must be between 1 and 65535")
	}
	texts := map[string]string{"source.username": s.Username, "source.password": password}
	for _, field := range []string{"source.username", "source.password"} {
		if text := texts[field]; text == "" || len(text) > mostText || strings.ContainsFunc(text, control) {
			faults.Add(field, "Must be 1-%d bytes long, without control characters", mostText)
		}
	}
	if !slices.Contains([]TLS{Verify, Require, Off}, s.TLS) {
		faults.Add("source.tls", "Must be verify, require or off")
	}
	if s.CA != "" && s.TLS != Verify {
		faults.Add("source.ca", "Is only for tls: verify")
	}
	if m.Mode != Dump && m.Mode != Replicate {
		faults.Add("mode", "Must be dump or replicate")
	}
	return append(faults, validateDatabases(engine, m.Databases)...)
}

func control(c rune) bool { return c < ' ' || c == 0x7f }

func validateDatabases(engine cluster.Engine, all []Database) (faults fault.Faults) {
	if len(all) == 0 || len(all) > MostDatabases {
		faults.Add("databases", "Must be 1-%d databases", MostDatabases)
	}
	seen := map[string]bool{}
	for _, d := range all {
		if d.From == "" || len(d.From) > mostText || strings.ContainsFunc(d.From, control) || engine == cluster.MySQL && logical.OwnSchema(d.From) {
			faults.Add("databases.name", "Must be the name of a database of the source's that isn't the server's own")
		}
		if f := logical.CheckDatabase(engine, "databases.as", d.To); f != nil {
			faults = append(faults, f)
		}
		if seen[d.To] {
			faults.Add("databases.as", "Must be different for each database")
		}
		seen[d.To] = true
	}
	return faults
}

// String is the problem for people, with what it is about.
func (p Problem) String() string {
	if p.Database == "" {
		return p.Message + "."
	}
	return "Database " + p.Database + ": " + p.Message + "."
}

// Room finds whether a database has the disk for what comes, in bytes.
func Room(comes, disk, used int64) []Problem {
	if free := max(disk-used, 0); comes > free {
		return []Problem{{Blocking: true, Message: fmt.Sprintf("The source's databases take %d MB, and there are %d MB left here: give the database a larger type first", comes>>20, free>>20)}}
	}
	return nil
}
