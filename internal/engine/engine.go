// Package engine is the seam to the database servers. A node, one server
// process, is its unit. A driver knows how a server is set up, configured,
// started, asked and told; it starts no processes itself, since only the
// platform knows with which user, limits and sandbox. Every driver passes
// enginetest.
package engine

import (
	"cmp"
	"context"
	"net/netip"
	"syscall"

	"steward/internal/catalog"
	"steward/internal/cluster"
	"steward/internal/parameter"
)

// Flavour is the make of a server within its family.
type Flavour string

// MySQL's family has two flavours.
const (
	FlavourPostgreSQL Flavour = "postgresql"
	FlavourMariaDB    Flavour = "mariadb"
	FlavourMySQL      Flavour = "mysql"
)

// Installation is one exact server build found on this machine. It can be
// written as JSON: an engine.json in a folder of `engines:` is one.
type Installation struct {
	Flavour Flavour `json:"flavour"`
	// Series is the release series, Version the exact version: "10.11" and "10.11.19".
	Series  string `json:"series"`
	Version string `json:"version"`
	// Builder tells builds apart whose collations or defaults may differ; a
	// cluster stays with one builder for life.
	Builder string `json:"builder"`
	// Home is the prefix of the installation.
	Home string `json:"home"`
	// Loader is put before every program when the build brings its own dynamic
	// loader: ["…/ld-linux-x86-64.so.2", "--library-path", "…"].
	Loader []string `json:"loader,omitempty"`
	// Bin maps a program's name to its absolute path.
	Bin map[string]string `json:"bin"`
	// Share and PluginDir are needed by relocated MySQL and MariaDB builds.
	Share     string `json:"share,omitempty"`
	PluginDir string `json:"plugin_dir,omitempty"`
}

// ID names the exact build: "postgresql-15.18-debian". It is what
// cluster.Cluster.Installation holds.
func (i Installation) ID() string {
	return string(i.Flavour) + "-" + i.Version + "-" + i.Builder
}

// Family is the engine the API knows the flavour by.
func (i Installation) Family() cluster.Engine {
	if i.Flavour == FlavourPostgreSQL {
		return cluster.PostgreSQL
	}
	return cluster.MySQL
}

// Program is the command line of one of the installation's programs.
func (i Installation) Program(name string, args ...string) []string {
	argv := append([]string{}, i.Loader...)
	if len(i.Loader) > 0 {
		argv = append(argv, "--argv0", i.Bin[name])
	}
	return append(append(argv, i.Bin[name]), args...)
}

// Node is all a driver needs to know of one node. The platform fills it in.
type Node struct {
	Cluster      cluster.ID
	Ordinal      int
	Installation Installation
	// Listen is the loopback address and port for the gateway.
	Listen netip.AddrPort
	// Data, Conf, TLS, Tmp, Log are folders of the node; Run holds its unix
	// socket and is short. Keys is a folder in memory for at-rest keys, ""
	// when the cluster isn't encrypted.
	Data, Conf, TLS, Tmp, Log, Run, Keys string

	Plan          catalog.Plan
	Commit        cluster.Commit
	SSLConnection bool
	Encrypted     bool
	ReadOnly      bool
	// Config are the settings that the customer chose.
	Config parameter.Config

	// Members is how many nodes the cluster has, Role what this one is. A
	// replica follows Source and takes no writes. Replication is how.
	Members     int
	Role        cluster.Role
	Source      Peer
	Replication cluster.Replication

	// AdminPassword is that of our own account, RootPassword that of dbadmin.
	AdminPassword string
	RootPassword  string
	// ArchiveDir asks for a continuous archive, and is a folder where the server may put
	// what it has finished writing; others keep it until Upload takes it. "" for none.
	// Term is how often the cluster's primary has changed so far.
	ArchiveDir string
	Term       int
	// Recovery makes the server start by recovering; nil for any other start.
	Recovery *Recovery
	// TemplatePassword is the admin password a fresh clone still has.
	TemplatePassword string
	// AtRestKey is 32 bytes; Keyring what KeyringContent returned earlier.
	AtRestKey []byte
	Keyring   []byte
}

// Server is what the node's settings are chosen for.
func (n Node) Server() parameter.Server {
	return parameter.Server{
		Family: string(n.Installation.Family()), Series: cmp.Or(n.Installation.Series, n.Installation.Version), Type: n.Plan.ID,
		MemoryMB: n.Plan.MemoryMB, DiskMB: n.Plan.DiskMB, VCPUs: n.Plan.VCPUs,
	}
}

// TLS files of a node, written by the platform into Node.TLS.
const (
	TLSCert = "server.crt"
	TLSKey  = "server.key"
	TLSCA   = "ca.crt"
)

// File is a file a driver wants to exist, with mode 0600; folders on its way
// that are missing are made, with mode 0700.
type File struct {
	Path    string
	Content []byte
	// Once leaves a file alone that is there already: the server itself goes on
	// writing it, so what the platform has may be older.
	Once bool
}

// Process is how to start a server.
type Process struct {
	Argv []string
	// Env is the whole environment; nothing is inherited.
	Env []string
	// Polite reports whether servers come first where there isn't processor time for all.
	Polite bool
}

// Runner runs one program to its end as the user that owns dir, inside the
// platform's sandbox, and returns its combined output. Used to make templates.
type Runner func(ctx context.Context, dir string, p Process, stdin []byte) (output []byte, err error)

// Driver knows one family of servers. All methods are repeatable.
type Driver interface {
	// Discover finds installations: the distribution's, and those described by
	// engine.json files below the given folders. Unusable ones come back as errors
	// in notes, for `steward doctor`.
	Discover(ctx context.Context, folders []string) (found []Installation, notes []error)

	// Template makes a pristine, cleanly stopped data folder at dir (which
	// exists, is empty, and belongs to the runner's user), holding our account
	// with templatePassword, dbadmin (unable to log in until Bootstrap), the
	// database `defaultdb` and the guards that fence dbadmin in.
	Template(ctx context.Context, inst Installation, dir, templatePassword string, run Runner) error
	// RegenerateIdentity makes a stopped clone of a template unique (system
	// identifier, server uuid). Called before the first start; repeatable.
	RegenerateIdentity(ctx context.Context, dir string) error

	// Files are the configuration files of the node, rendered. Pure.
	Files(n Node) ([]File, error)
	// Process is the server's command line. Pure.
	Process(n Node) Process

	// Ping is nil when the server answers a query of ours. ErrStarting while
	// it is starting or recovering.
	Ping(ctx context.Context, n Node) error
	// Bootstrap gives a freshly started clone its own passwords and, when
	// encrypted, encrypts what the template brought. Done before the gateway
	// opens; cheap when there is nothing to do.
	Bootstrap(ctx context.Context, n Node) error
	// Fence takes from customers what an older steward may have let them have. Called
	// when data of any age has been started, before it serves, before Reload, and once
	// for data that runs, also after its node became the primary.
	Fence(ctx context.Context, n Node) error
	// CheckNames returns a *ReservedNameError when the customer has a database with whose name the
	// server couldn't start again, or be restored from a copy. Asked before a server
	// that runs is stopped to be started again.
	CheckNames(n Node) error
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
	// Version is what the running server says of itself: "15.18".
	Version(ctx context.Context, n Node) (string, error)
	// Connections is how many connections the server takes of customers at once,
	// logged in or not; ours have room beside them. Pure.
	Connections(n Node) int
	// StopSignal asks the server to stop cleanly, and soon, even with clients
	// connected; the platform waits and kills later.
	StopSignal() syscall.Signal
	// KeyringContent is what the server's keyring holds now and must be kept
	// sealed outside the data folder; nil when there is no such thing.
	KeyringContent(n Node) ([]byte, error)
	// EncryptionMissing is why the installation can't encrypt at rest, "" when it can.
	EncryptionMissing(inst Installation) string
	// ControlFile is the file, below a data folder, without which there is no
	// database in it. It is never replaced while a server runs.
	ControlFile() string
	// AfterPatch brings the data folder up to the newly started version
	// (mariadb-upgrade and its kin); nothing to do for most.
	AfterPatch(ctx context.Context, n Node) error

	Replicator
	Archiver
	ContinuousArchiver
}
