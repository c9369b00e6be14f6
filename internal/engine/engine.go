// Package engine is the seam to the database servers. A node, one server
// process, is its unit. A driver knows how a server is set up, configured,
// started, asked and told; it starts no processes itself, since only the
// platform knows with which user, limits and sandbox. Every driver passes
// enginetest.
package engine

import (
	"cmp"
	"net/netip"
	"slices"

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
	// Libraries are those found with a build of PostgreSQL that steward can have loaded.
	Libraries []string `json:"-"`
}

// Loads reports whether the build comes with a library.
func (i Installation) Loads(library string) bool { return slices.Contains(i.Libraries, library) }

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
	// Listen is the address and port for the gateway, on loopback or in a network of the node's own.
	Listen netip.AddrPort
	// Remote says how the node is reached; nil for one on this machine.
	Remote *Remote
	// Clients are where the gateway's customers come from, as the server sees it; loopback when empty.
	Clients []netip.Prefix
	// Followers are where the cluster's replicas come from, if by TCP; loopback when empty.
	Followers []netip.Addr
	// Pooler is where connections of the cluster's pools come from, by a wire that nobody else is at; invalid without any.
	Pooler netip.Addr
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

	// ClusterSize is how many nodes the cluster has, Role what this one is. A
	// replica follows Source and takes no writes. Replication is how.
	ClusterSize int
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
		MemoryMB: n.Plan.MemoryMB, DiskMB: n.Plan.DiskMB, VCPUs: n.Plan.VCPUs, Libraries: n.Installation.Libraries,
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
