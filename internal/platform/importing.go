package platform

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"steward/internal/cluster"
	"steward/internal/engine"
	"steward/internal/fault"
	"steward/internal/migration"
)

// ImportSource is a server elsewhere whose databases are brought over. It may be anybody's.
type ImportSource struct {
	// Dial opens a connection to it, whose address was judged.
	Dial func(ctx context.Context) (net.Conn, error)
	// TLS is how a connection is encrypted; nil for not at all.
	TLS                *tls.Config
	Username, Password string
	// Received is what it has sent, Most what it may send.
	Received *engine.Received
	Most     int64
	// Silence is how long it may send nothing that it was asked for.
	Silence time.Duration
	// Large is whose turn it is to hold a large row, of all streams of one migration.
	Large engine.Turn
	// Heard is told whenever something has come from it, by any goroutine. It may be nil.
	Heard func()
}

// SourceDialer opens connections to sources, where the operator's rules let them lead.
type SourceDialer interface {
	// Dial connects to a host, whose address is judged as it is connected to. What the rules forbid, and a name that leads nowhere, is
	// a *engine.SourceError.
	Dial(ctx context.Context, host string, port int) (net.Conn, error)
	// Barrier is why a host can't be connected to, as far as that is known without looking its name up; "" when it may be.
	Barrier(host string, port int) string
}

// sourceSilence is how long a source may think about an answer.
const sourceSilence = 5 * time.Minute

// leastReceived is what any source may send, however small the database is.
const leastReceived = 1 << 30

// NewImportSource is a migration's source; disk is how many bytes the database's plan has.
func NewImportSource(m migration.Source, password string, disk int64, dialer SourceDialer) (ImportSource, error) {
	const words = 4 // what is sent is text, and larger than what is kept of it
	s := ImportSource{Username: m.Username, Password: password, Received: &engine.Received{}, Most: max(words*disk, leastReceived), Silence: sourceSilence, Large: engine.NewTurn()}
	s.Dial = func(ctx context.Context) (net.Conn, error) { return dialer.Dial(ctx, m.Host, m.Port) }
	if m.TLS == migration.Off {
		return s, nil
	}
	// Require takes any certificate: its owner asks for that, and is told what it means.
	s.TLS = &tls.Config{ServerName: strings.TrimSuffix(m.Host, "."), MinVersion: tls.VersionTLS12, InsecureSkipVerify: m.TLS == migration.Require}
	if m.CA != "" {
		s.TLS.RootCAs = x509.NewCertPool()
		if !s.TLS.RootCAs.AppendCertsFromPEM([]byte(m.CA)) {
			return s, fault.NewInvalid("source.ca", "Must be certificates in PEM")
		}
	}
	return s, nil
}

// ErrSourceChanges is returned by Import when a source's tables were altered, emptied or made anew while they were copied. It may go well another time.
var ErrSourceChanges = engine.ErrSourceChanges

// ImportProgress is what an import reports: another phase, how far a table is, or how far behind its source a database is.
type ImportProgress struct {
	Phase migration.Phase
	Table *migration.Table
	Lag   *migration.Lag
}

// Importer is the part of a Driver that brings databases over from servers elsewhere. It holds no lease, and wakes no cluster that
// sleeps. What the source has to answer for is a *CustomerError.
type Importer interface {
	// Examine asks a source whether databases can be brought over into a cluster.
	Examine(ctx context.Context, id cluster.ID, from ImportSource, mode migration.Mode, databases []migration.Database) (migration.Report, error)
	// Empty reports whether there is nothing in a logical database of a cluster's.
	Empty(ctx context.Context, id cluster.ID, database string) (bool, error)
	// Import fills an empty logical database of a cluster's with one of a source's. What it leaves when it fails is in that logical
	// database alone. tell is called from one goroutine at a time.
	Import(ctx context.Context, id cluster.ID, from ImportSource, database migration.Database, report func(ImportProgress)) error
	// KeepUp goes on with a database that was brought over with a Slot: it writes what the source has written since, until asked is closed and all is
	// here that the source had by then. Then the database is its owner's, and nil is returned, also by further calls. A *CustomerError that isn't
	// Passing ends it for good; after anything else it goes on where it was.
	KeepUp(ctx context.Context, id cluster.ID, from ImportSource, database migration.Database, asked <-chan struct{}, report func(ImportProgress)) error
	// Complete does what can wait until a database was cut over, and removes what following has left in it. It may be repeated.
	Complete(ctx context.Context, id cluster.ID, database migration.Database, report func(ImportProgress)) error
	// Release removes from a source what following it takes there; the cluster may be gone.
	Release(ctx context.Context, c cluster.Cluster, from ImportSource, database migration.Database) error
	// Leftovers are the statements by which the source's owner can do the same.
	Leftovers(c cluster.Cluster, database migration.Database) string
}

// NoImports is what customers are told whose region's platform can't bring databases over.
const NoImports = "Databases of this region can't be brought over from other servers by the API; use steward db import."
