package engine

import (
	"context"
	"net/netip"
	"syscall"
	"time"
)

// Driver knows one family of servers. All methods are repeatable.
type Driver interface {
	Discoverer
	Templater
	Launcher
	Administrator
	Upgrader
	MajorUpgrader
	Replicator
	Archiver
	ContinuousArchiver
	Exporter
	Importer
	Metered
	Inspector
	Shaped
}

// Discoverer is the part of a Driver that finds servers' programs.
type Discoverer interface {
	// Discover finds installations: the distribution's, and those described by
	// engine.json files below the given folders. Unusable ones come back as errors
	// in notes, for `steward doctor`.
	Discover(ctx context.Context, folders []string) (found []Installation, notes []error)
	// EncryptionMissing is why the installation can't encrypt at rest, "" when it can.
	EncryptionMissing(inst Installation) string
}

// Runner runs one program to its end as the user that owns dir, inside the
// platform's sandbox, and returns its combined output. Used to make templates.
type Runner func(ctx context.Context, dir string, p Process, stdin []byte) (output []byte, err error)

// Templater is the part of a Driver that makes data folders.
type Templater interface {
	// Template makes a pristine, cleanly stopped data folder at dir (which
	// exists, is empty, and belongs to the runner's user), holding our account
	// with templatePassword, dbadmin (unable to log in until Bootstrap), the
	// database `defaultdb` and the guards that fence dbadmin in.
	Template(ctx context.Context, inst Installation, dir, templatePassword string, run Runner) error
	// RegenerateIdentity makes a stopped clone of a template unique (system
	// identifier, server uuid). Called before the first start; repeatable.
	RegenerateIdentity(ctx context.Context, dir string) error
	// ControlFile is the file, below a data folder, without which there is no
	// database in it. It is never replaced while a server runs.
	ControlFile() string
}

// Launcher is the part of a Driver that says how a server is configured, started and
// stopped. It asks no server anything.
type Launcher interface {
	// Files are the configuration files of the node, rendered. Pure.
	Files(n Node) ([]File, error)
	// Process is the server's command line. Pure.
	Process(n Node) Process
	// Connections is how many connections the server takes of customers at once,
	// logged in or not; ours have room beside them. Pure.
	Connections(n Node) int
	// StopSignal asks the server to stop cleanly, and soon, even with clients
	// connected; the platform waits and kills later.
	StopSignal() syscall.Signal
	// StopsChild is the signal that ends a child of the server's main process, by its title, which may miss that
	// the server stops, so that this would wait for it; 0 for any other. Pure.
	StopsChild(title string) syscall.Signal
	// TellsOfStop reports whether a server that is asked to stop says so to each session, as EndSessions does.
	TellsOfStop() bool
	// CheckNames returns a *ReservedNameError when the customer has a database with whose name the
	// server couldn't start again, or be restored from a copy. Asked before a server
	// that runs is stopped to be started again.
	CheckNames(n Node) error
	// KeyringContent is what the server's keyring holds now and must be kept
	// sealed outside the data folder; nil when there is no such thing.
	KeyringContent(n Node) ([]byte, error)
}

// Pinger reports whether servers answer.
type Pinger interface {
	// Ping is nil when the server answers a query of ours. ErrStarting while
	// it is starting or recovering.
	Ping(ctx context.Context, n Node) error
}

// Administrator is the part of a Driver that looks after a running server.
type Administrator interface {
	Pinger
	// Bootstrap gives a freshly started clone its own passwords and, when
	// encrypted, encrypts what the template brought. Done before the gateway
	// opens; cheap when there is nothing to do.
	Bootstrap(ctx context.Context, n Node) error
	// Fence takes from customers what an older steward may have let them have. Called
	// when data of any age has been started, before it serves, before Reload, and once
	// for data that runs, also after its node became the primary.
	Fence(ctx context.Context, n Node) error
	// SetRootPassword makes n.RootPassword dbadmin's and ends dbadmin's sessions,
	// whatever they have open: one of somebody who knew the old password could set
	// another. It also undoes what keeps dbadmin from coming in at all.
	SetRootPassword(ctx context.Context, n Node) error
	// VerifyRootPassword is nil when the server takes n.RootPassword as dbadmin's,
	// over TLS, whatever the customer has made of their databases.
	VerifyRootPassword(ctx context.Context, n Node) error
	// Reload makes the running server take over what it can of Files and of
	// the certificates, without a restart. restart reports whether something needs one.
	Reload(ctx context.Context, n Node) (restart bool, err error)
	// SetReadOnly turns the disk guard on or off at run time, ending what
	// writes. Files with the same Node.ReadOnly must have been written before:
	// they keep it over restarts.
	SetReadOnly(ctx context.Context, n Node, on bool) error
	// PrepareStop does, while customers go on, what they, or whoever stops the server, would have to wait for
	// when it is stopped. It is only an advantage: a server stops as well without.
	PrepareStop(ctx context.Context, n Node) error
	// EndSessions ends those of customers at the given addresses and ports, whatever
	// they have open, with the server's own words, and returns when they are gone or ctx ends.
	EndSessions(ctx context.Context, n Node, clients []netip.AddrPort) error
	// RetireSessions ends those of them that have had nothing open for so long, which MySQL counts in
	// whole seconds, and returns at once.
	RetireSessions(ctx context.Context, n Node, clients []netip.AddrPort, idle time.Duration) error
}

// Upgrader is the part of a Driver that moves data to a newer build.
type Upgrader interface {
	// Version is what the running server says of itself: "15.18".
	Version(ctx context.Context, n Node) (string, error)
	// AfterPatch brings the data folder up to the newly started version
	// (mariadb-upgrade and its kin); nothing to do for most.
	AfterPatch(ctx context.Context, n Node) error
}
